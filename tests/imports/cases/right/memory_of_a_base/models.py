import torch
from torch import nn
from torch.distributions import Categorical


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))

    def forward(self, x):
        return Categorical(logits=self.net(x))


class Env:
    def reset(self):
        self.t = 0
        return torch.randn(4)

    def step(self, a):
        self.t += 1
        return torch.randn(4), float(a), self.t >= 5, {}
