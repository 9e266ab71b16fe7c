"""Layers whose gradients vanish, gradients that explode, steps that are too large, units that are dead."""

import torch
from torch import nn

torch.manual_seed(0)


def train(model, optimizer, scale=lambda step: 1.0, steps=24):
    for step in range(steps):
        optimizer.zero_grad()
        loss = (model(torch.rand(16, 8)) - 1).pow(2).mean() * scale(step)
        loss.backward()
        optimizer.step()  # seen: exploding-gradients


def vanishing():
    layers = [layer for _ in range(14) for layer in (nn.Linear(8, 8), nn.Sigmoid())]
    model = nn.Sequential(*layers, nn.Linear(8, 1))
    train(model, torch.optim.SGD(model.parameters(), lr=0.01))  # seen: vanishing-gradients


def exploding():
    model = nn.Linear(8, 1)
    train(model, torch.optim.SGD(model.parameters(), lr=1e-12), lambda step: 10.0 ** min(step, 12))


def oversized():
    model = nn.Linear(8, 4)
    train(model, torch.optim.Adam(model.parameters(), lr=50.0, betas=(0.0, 0.0)))  # seen: update-too-large


class Net(nn.Module):
    def __init__(self, bias):
        super().__init__()
        self.first, self.second = nn.Linear(8, 12), nn.Linear(12, 1)
        nn.init.constant_(self.first.bias, bias)

    def forward(self, x):
        if self.first.bias.sum() < 0:
            return self.second(torch.relu(self.first(x)))  # seen: dead-units
        return self.second(torch.relu(self.first(x)))


def dead(bias):
    model = Net(bias)
    train(model, torch.optim.SGD(model.parameters(), lr=0.01))


vanishing()
exploding()
oversized()
dead(-10.0)
dead(0.5)
