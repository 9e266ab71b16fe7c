"""Findings that a check of watched runs decides: these are wrong, and a run says so or leaves it open."""

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)


def step(model, optimizer, loss_of):
    optimizer.zero_grad()
    loss_of(model).backward()
    optimizer.step()


def train(model, loss_of, steps=6):
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for _ in range(steps):
        step(model, optimizer, loss_of)


def classes(model):
    return F.cross_entropy(model(torch.randn(8, 4)), torch.zeros(8, dtype=torch.long))  # verify: single-class refuted, says inconclusive


def loaded():
    model = nn.Linear(4, 2)
    model.load_state_dict(nn.Linear(4, 2).state_dict(), strict=False)  # verify: unchecked-partial-load refuted, says inconclusive
    train(model, lambda model: model(torch.randn(8, 4)).pow(2).mean())


def distance(model):
    return (model(torch.randn(8, 4)).pow(2).sum(1) + 1).sqrt().mean()  # verify: root-of-zero refuted, says inconclusive


train(nn.Linear(4, 2), classes)
loaded()
train(nn.Linear(4, 2), distance, 3)
