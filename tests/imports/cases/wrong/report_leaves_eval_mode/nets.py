import torch
from torch import nn


def layer(width):
    return nn.Sequential(nn.Linear(width, 8), nn.BatchNorm1d(8), nn.ReLU())


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = layer(6)
        self.out = nn.Linear(8, 3)

    def forward(self, x):
        return self.out(self.body(x))

    @torch.no_grad()
    def tag(self, x):
        return self.out(self.body(x)).argmax(1)
