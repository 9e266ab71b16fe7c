"""A mean over no element is the first value that is not finite."""

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


def of_mask(model):
    error, mask = model(torch.randn(8, 4)).pow(2), torch.zeros(8, 2)
    return (error * mask).sum() / mask.sum()  # verify: empty-mask confirmed, unseen by the linter


train(nn.Linear(4, 2), of_mask)
