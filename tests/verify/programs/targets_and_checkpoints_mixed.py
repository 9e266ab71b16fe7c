"""Targets with and without graphs, logarithms of probabilities, and checkpoints: some are wrong, some are right."""

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

torch.manual_seed(0)


def net():
    return nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 1))


def copied_target():
    model, target = net(), net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(6):
        x = torch.rand(8, 4)
        optimizer.zero_grad()
        goal = 1 + 0.9 * target(x)
        loss = F.smooth_l1_loss(model(x), goal)  # verify: target-with-gradient confirmed, unseen by the linter
        loss.backward()
        optimizer.step()


def certain():
    model = nn.Linear(4, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(4):
        probabilities = F.softmax(model(200 * torch.randn(8, 4)), dim=1)
        logs = torch.log(probabilities)  # verify: log-of-softmax confirmed
        optimizer.zero_grad()
        (-logs[:, 0].clamp(min=-9, max=9).mean()).backward()
        optimizer.step()


def saving():
    model, head = nn.Linear(4, 8), nn.Linear(8, 1)
    optimizer = torch.optim.SGD([*model.parameters(), *head.parameters()], lr=0.01)
    for _ in range(4):
        hidden = checkpoint(model, torch.rand(8, 4), use_reentrant=True)  # verify: reentrant-checkpoint confirmed
        optimizer.zero_grad()
        head(hidden).mean().backward()
        optimizer.step()


def cut_target():
    model, target = net(), net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(6):
        x = torch.rand(8, 4)
        optimizer.zero_grad()
        loss = F.smooth_l1_loss(model(x), target(x).detach())  # verify: target-with-gradient refuted
        loss.backward()
        optimizer.step()


def saving_well():
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(4):
        x = torch.rand(8, 4, requires_grad=True)
        optimizer.zero_grad()
        checkpoint(model, x, use_reentrant=True).mean().backward()  # verify: reentrant-checkpoint refuted
        optimizer.step()


for part in (copied_target, certain, saving, cut_target, saving_well):
    part()
