"""The first linear layer has the size of another image."""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3)
        self.head = nn.Linear(8 * 14 * 14, 10)

    def forward(self, x):
        h = self.conv(x).relu()
        h = F.max_pool2d(h, 2)
        return self.head(h.flatten(1))  # seen: program-error (expects 1,568 features)


net = Net()
for step in range(5):
    net(torch.randn(2, 3, 28, 28)).mean().backward()
