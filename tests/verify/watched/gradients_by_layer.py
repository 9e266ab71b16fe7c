"""Layers through which gradients grow on their way back, and others, as deep, through which they do not."""

import torch
from torch import nn

torch.manual_seed(0)


def train(model, optimizer, x, steps=14):
    for _ in range(steps):
        optimizer.zero_grad()
        (model(x) - 1).pow(2).mean().backward()  # seen: gradients-grow-by-layer (8 layers)
        optimizer.step()


def stack(std, *between):
    layers = [nn.Sequential(nn.Linear(32, 32), *(kind() for kind in between), nn.ReLU()) for _ in range(8)]
    for layer in layers:
        nn.init.normal_(layer[0].weight, std=std)
    return nn.Sequential(*layers, nn.Linear(32, 1))


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(nn.Sequential(nn.LayerNorm(32), nn.Linear(32, 32), nn.GELU()) for _ in range(10))
        self.last = nn.Linear(32, 1)

    def forward(self, x):
        for block in self.blocks:
            x = x + block(x)
        return self.last(x)


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell, self.last = nn.Linear(32, 32, bias=False), nn.Linear(32, 1)
        self.cell.weight.data.copy_(2 * torch.eye(32))

    def forward(self, x):
        hidden = x
        for _ in range(12):
            hidden = self.cell(hidden)
        return self.last(hidden)


def weighted_heads():
    """Losses of parallel layers whose weights fall by a factor each: no gradient goes from one to the next."""
    heads = nn.ModuleList(nn.Linear(32, 1) for _ in range(8))
    optimizer = torch.optim.Adam(heads.parameters(), lr=1e-4)
    for _ in range(14):
        optimizer.zero_grad()
        x = torch.rand(16, 32)
        losses = [head(x).pow(2).mean() * 4.0**-number for number, head in enumerate(heads)]
        sum(losses).backward()
        optimizer.step()


for model in (stack(1.0), stack(1.0, lambda: nn.BatchNorm1d(32)), stack(0.25), Residual().double(), Recurrent()):
    kind = next(model.parameters()).dtype
    train(model, torch.optim.Adam(model.parameters(), lr=1e-4), torch.rand(16, 32, dtype=kind))
weighted_heads()
