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
    return F.cross_entropy(model(torch.randn(8, 4)), torch.zeros(8, dtype=torch.long))  # verify: single-class refuted


def loaded():
    model = nn.Linear(4, 2)
    model.load_state_dict(nn.Linear(4, 2).state_dict(), strict=False)  # verify: unchecked-partial-load refuted
    train(model, lambda model: model(torch.randn(8, 4)).pow(2).mean())


def distance(model):
    return (model(torch.randn(8, 4)).pow(2).sum(1) + 1).sqrt().mean()  # verify: root-of-zero refuted, says inconclusive


def of_mask(model):
    error, mask = model(torch.randn(8, 4)).pow(2), torch.zeros(8, 2)
    return (error * mask).sum() / mask.sum().clamp(min=1)  # verify: empty-mask refuted, says inconclusive


def entropy(model):
    p = model(torch.randn(8, 4)).masked_fill(torch.tensor([True, False]), -1e9).softmax(-1)
    return (p * p.clamp(min=1e-9).log()).sum()  # verify: entropy-of-masked refuted, says inconclusive


def bound(model):
    p = torch.clamp(torch.sigmoid(model(torch.randn(8, 4))), 1e-6, 1 - 1e-6)
    return -torch.log(1 - p).mean()  # verify: bound-at-singularity refuted, says inconclusive


def regularized():
    net = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    for _ in range(15):
        x = torch.randn(8, 4, requires_grad=True)
        optimizer.zero_grad()
        net(x).pow(2).sum().backward(create_graph=True)  # verify: gradient-cycle refuted
        x.grad.pow(2).sum().backward()
        optimizer.step()
        x.grad = None
        optimizer.zero_grad()


def evaluated():
    net = nn.Sequential(nn.Linear(4, 8), nn.Dropout(), nn.Linear(8, 1))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    for _ in range(4):
        net.train()
        step(net, optimizer, lambda net: net(torch.randn(8, 4)).pow(2).mean())
        net.eval()
        with torch.no_grad():
            net(torch.randn(8, 4)).mean()  # verify: evaluation-in-training-mode refuted


train(nn.Linear(4, 2), classes)
loaded()
regularized()
evaluated()
for loss_of in (distance, of_mask, entropy, bound):
    train(nn.Linear(4, 2), loss_of, 2)
