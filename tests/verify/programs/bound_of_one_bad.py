"""A bound that is 1 in single precision lets an infinity through."""

import torch
from torch import nn

torch.manual_seed(0)


def step(model, optimizer, loss_of):
    optimizer.zero_grad()
    loss_of(model).backward()
    optimizer.step()


def train(model, loss_of, steps=3):
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for _ in range(steps):
        step(model, optimizer, loss_of)


def bound(model):
    p = torch.clamp(torch.sigmoid(model(torch.randn(8, 4)) * 0 + 100), 1e-8, 1 - 1e-8)
    return -torch.log(1 - p).mean()  # verify: bound-at-singularity confirmed


train(nn.Linear(4, 2), bound)
