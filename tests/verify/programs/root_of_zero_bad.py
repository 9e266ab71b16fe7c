"""A root at zero is the first value that is not finite."""

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


def distance(model):
    out = model(torch.zeros(8, 4)) * 0
    return out.pow(2).sum(1).sqrt().mean()  # verify: root-of-zero confirmed, unseen by the linter


train(nn.Linear(4, 2), distance)
