"""Optimizers all of whose gradients are zero or missing at every step, and groups; and those that only seem to be."""

import torch
from torch import nn

torch.manual_seed(0)


def net(width=1):
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, width))


def fit(model, optimizer, loss_of, steps=12):
    for step in range(steps):
        optimizer.zero_grad()
        loss_of(model, torch.randn(6, 4), step).backward()
        optimizer.step()


def clamped(model, x, step):
    return (model(x).clamp(20, 30) - x.sum(1, keepdim=True)).pow(2).mean()


def nothing_selected(model, x, step):
    mask = x.sum(1, keepdim=True) > 1e6
    return (model(x) * mask).pow(2).sum()


def selected_late(model, x, step):
    return (model(x) * (step > 8)).pow(2).sum()


def clamped_away():
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)  # seen: gradient-of-zero (at all of 12 steps)
    fit(model, optimizer, clamped)


def empty_mask():
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)  # seen: gradient-of-zero
    fit(model, optimizer, nothing_selected)


def mask_that_fills():
    model = net()
    fit(model, torch.optim.SGD(model.parameters(), lr=0.1), selected_late)


def frozen_parts():
    model = net()
    model[0].requires_grad_(False)
    optimizer = torch.optim.SGD([{"params": model[0].parameters()}, {"params": model[2].parameters()}], lr=0.1)
    fit(model, optimizer, lambda model, x, step: (model(x) - x.sum(1, keepdim=True)).pow(2).mean())


def one_group():
    model, other = net(), net()
    groups = [{"params": model.parameters()}, {"params": other.parameters()}]
    optimizer = torch.optim.SGD(groups, lr=0.1)  # seen: gradient-of-zero
    fit(model, optimizer, lambda model, x, step: model(x).pow(2).mean() + 0.5 * clamped(other, x, step))


def wrong_optimizer():
    model, other = net(), net()
    own = torch.optim.SGD(model.parameters(), lr=0.1)
    optimizer = torch.optim.SGD(other.parameters(), lr=0.1)
    for _ in range(12):
        x = torch.randn(6, 4)
        own.zero_grad()
        model(x).pow(2).mean().backward()
        own.step()
        other(x)
        optimizer.step()  # seen: step-without-backward


class LowRank(nn.Module):
    """`up` starts at zero, as it should; with `both`, so does `down`."""

    def __init__(self, both):
        super().__init__()
        self.base = nn.Linear(4, 8).requires_grad_(False)
        self.down = nn.Parameter(torch.zeros(2, 4) if both else torch.randn(2, 4))
        self.up = nn.Parameter(torch.zeros(8, 2))

    def forward(self, x):
        return self.base(x) + x @ self.down.t() @ self.up.t()


def both_factors():
    model = nn.Sequential(LowRank(both=True), nn.Tanh(), nn.Linear(8, 1))
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1)  # seen: gradient-of-zero
    fit(model, optimizer, lambda model, x, step: (model(x) - x.sum(1, keepdim=True)).pow(2).mean())


def one_factor():
    model = nn.Sequential(LowRank(both=False), nn.Tanh(), nn.Linear(8, 1))
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1)
    fit(model, optimizer, lambda model, x, step: (model(x) - x.sum(1, keepdim=True)).pow(2).mean())


both_factors()
one_factor()
clamped_away()
empty_mask()
mask_that_fills()
frozen_parts()
one_group()
wrong_optimizer()
