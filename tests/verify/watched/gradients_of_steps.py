"""Gradients that are used again, cleared too early, or not there; and a loop beside it that is right."""

import torch
from torch import nn

torch.manual_seed(0)


def make():
    model = nn.Linear(4, 1)
    return model, torch.optim.SGD(model.parameters(), lr=0.01)


def never_cleared():
    model, optimizer = make()
    for _ in range(12):
        model(torch.randn(8, 4)).pow(2).mean().backward()  # seen: missing-zero-grad
        optimizer.step()


def cleared_too_early():
    model, optimizer = make()
    for _ in range(12):
        model(torch.randn(8, 4)).pow(2).mean().backward()
        optimizer.zero_grad()  # seen: cleared-before-step
        optimizer.step()


def stepped_for_nothing():
    model, optimizer = make()
    for _ in range(12):
        model(torch.randn(8, 4)).pow(2).mean()
        optimizer.step()  # seen: step-without-backward


def right():
    model, optimizer = make()
    for _ in range(12):
        optimizer.zero_grad()
        for _ in range(2):
            (model(torch.randn(8, 4)).pow(2).mean() / 2).backward()
        optimizer.step()


def restored():
    model, optimizer = make()
    for _ in range(12):
        optimizer.zero_grad()
        (model(torch.randn(8, 4)) - model.bias).pow(2).mean().backward()
        kept = [p.grad.clone() for p in model.parameters()]
        model(torch.randn(8, 4)).sum().backward()
        for p, k in zip(model.parameters(), kept):
            p.grad = k  # of the bias it is zero, as it should be
        optimizer.step()


restored()
never_cleared()
cleared_too_early()
stepped_for_nothing()
right()
