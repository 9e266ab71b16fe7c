"""Findings that a check of watched runs decides: all of these are right."""

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


def one_class(model):
    return F.cross_entropy(model(torch.randn(8, 4)), torch.zeros(8, dtype=torch.long))  # verify: single-class confirmed, unseen by the linter


def loaded():
    model = nn.Linear(4, 2)
    state = {f"module.{name}": value for name, value in nn.Linear(4, 2).state_dict().items()}
    model.load_state_dict(state, strict=False)  # verify: unchecked-partial-load confirmed
    train(model, lambda model: model(torch.randn(8, 4)).pow(2).mean())


def distance(model):
    out = model(torch.zeros(8, 4)) * 0
    return out.pow(2).sum(1).sqrt().mean()  # verify: root-of-zero confirmed, unseen by the linter


train(nn.Linear(4, 1), one_class)
loaded()
train(nn.Linear(4, 2), distance, 3)
