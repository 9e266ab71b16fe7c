import torch
from torch import nn
from loading import *


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 8), nn.Linear(8, 3)

    def forward(self, x):
        return self.b(torch.tanh(self.a(x)))


def create_model(ema=False):
    model = Net()
    if ema:
        model.a.requires_grad_(False)
        model.b.requires_grad_(False)
    return model


def batches(n=4):
    return [(torch.randn(6, 4), torch.randint(0, 3, (6,))) for _ in range(n)]
