"""A first validation leaves a model in eval mode, in which it is trained; and models that are meant to be in it."""

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)


def net():
    return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.2), nn.Linear(8, 1))


def batch():
    x = torch.rand(8, 4)
    return x, x.sum(1, keepdim=True)


@torch.no_grad()
def validate(model):
    model.eval()  # seen: training-in-eval-mode
    return sum(F.mse_loss(model(batch()[0]), batch()[1]) for _ in range(2))


def fit(model, steps=12, restores=False):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    validate(model)
    if restores:
        model.train()
    for _ in range(steps):
        x, y = batch()
        optimizer.zero_grad()
        F.mse_loss(model(x), y).backward()
        optimizer.step()


def evaluate(model):
    model.eval()  # seen: training-in-eval-mode (all 12 steps of this optimizer)
    with torch.no_grad():
        model(batch()[0])


def rest(model):
    model.eval()  # seen: training-in-eval-mode (the last 12 steps)


def steps(model, optimizer):
    for _ in range(12):
        x, y = batch()
        optimizer.zero_grad()
        F.mse_loss(model(x), y).backward()
        optimizer.step()


def new_optimizer():
    """All its steps are in eval mode, after an evaluation: a suspicion."""
    model = net()
    steps(model, torch.optim.SGD(model.parameters(), lr=0.01))
    evaluate(model)
    steps(model, torch.optim.SGD(model.parameters(), lr=0.01))


def no_evaluation():
    """The same optimizer goes on in eval mode, and nothing was evaluated: a suspicion, too."""
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    steps(model, optimizer)
    rest(model)
    steps(model, optimizer)


def frozen_statistics():
    """In eval mode before it is validated."""
    model = net()
    model.eval()
    fit(model)


def tune(model, steps=12):
    """One function that freezes, measures and trains."""
    model.eval()
    with torch.no_grad():
        model(batch()[0])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(steps):
        x, y = batch()
        optimizer.zero_grad()
        F.mse_loss(model(x), y).backward()
        optimizer.step()


no_evaluation()
new_optimizer()
fit(net())
fit(net(), restores=True)
frozen_statistics()
tune(net())
