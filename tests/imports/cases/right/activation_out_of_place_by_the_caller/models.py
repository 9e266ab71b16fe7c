import torch
from torch import nn
from layers import *


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.act = nn.Linear(4, 8), nn.Linear(8, 8), nn.ReLU(inplace=True)
        self.out = nn.Linear(8, 3)

    def forward(self, x):
        h = self.a(x)
        r = torch.sigmoid(h)
        h = self.act(r) + r
        return self.out(h)


def batches(n=4):
    return [(torch.randn(6, 4), torch.randint(0, 3, (6,))) for _ in range(n)]
