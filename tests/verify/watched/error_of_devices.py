"""One layer is on another device."""

import torch
from torch import nn

torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 8)
        self.b = nn.Linear(8, 1, device="meta")

    def forward(self, x):
        return self.b(self.a(x).relu())  # seen: program-error (is on meta)


net = Net()
for step in range(5):
    net(torch.randn(2, 4)).mean().backward()
