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
    return F.cross_entropy(
        model(torch.randn(8, 4)), torch.zeros(8, dtype=torch.long)
    )  # verify: single-class confirmed, unseen by the linter


def loaded():
    model = nn.Linear(4, 2)
    state = {f"module.{name}": value for name, value in nn.Linear(4, 2).state_dict().items()}
    model.load_state_dict(state, strict=False)  # verify: unchecked-partial-load confirmed, unseen by the linter
    train(model, lambda model: model(torch.randn(8, 4)).pow(2).mean())


def regularized():
    net = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    for _ in range(15):
        x = torch.randn(8, 4, requires_grad=True)
        optimizer.zero_grad()
        net(x).pow(2).sum().backward(create_graph=True)  # verify: gradient-cycle confirmed
        x.grad.pow(2).sum().backward()
        optimizer.step()


def evaluated():
    net = nn.Sequential(nn.Linear(4, 8), nn.Dropout(), nn.Linear(8, 1))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    for _ in range(4):
        step(net, optimizer, lambda net: net(torch.randn(8, 4)).pow(2).mean())
        with torch.no_grad():
            net(torch.randn(8, 4)).mean()  # verify: evaluation-in-training-mode confirmed, unseen by the linter


train(nn.Linear(4, 1), one_class)
loaded()
regularized()
evaluated()
