"""Layers in a plain list, and a sampler that nobody tells the epoch."""

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, DistributedSampler

torch.manual_seed(0)


def net():
    return nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 1))


def step(model, optimizer):
    x = torch.rand(8, 4)
    optimizer.zero_grad()
    F.mse_loss(model(x), x.sum(1, keepdim=True)).backward()
    optimizer.step()


class Layers(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = [nn.Linear(4, 4), nn.Linear(4, 4)]  # verify: unregistered-module confirmed
        self.head = nn.Linear(4, 1)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x).tanh()
        return self.head(x)


def listed():
    model = Layers()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(3):
        step(model, optimizer)


def sampled():
    data = [torch.rand(4) for _ in range(32)]
    sampler = DistributedSampler(data, num_replicas=2, rank=0)  # verify: missing-set-epoch confirmed, unseen by the linter
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for epoch in range(2):
        for x in DataLoader(data, batch_size=8, sampler=sampler):
            optimizer.zero_grad()
            model(x).pow(2).mean().backward()
            optimizer.step()


listed()
sampled()
