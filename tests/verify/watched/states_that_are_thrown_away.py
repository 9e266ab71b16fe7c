"""Optimizers that load a state which nothing uses; and new optimizers that are right."""

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)


def net():
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))


def train(model, optimizer, steps=12):
    for _ in range(steps):
        optimizer.zero_grad()
        x = torch.randn(8, 4)
        F.mse_loss(model(x), x.sum(1, keepdim=True)).backward()
        optimizer.step()


def checkpoint():
    model = net()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    train(model, optimizer, 3)
    return {"model": model.state_dict(), "optimizer": optimizer.state_dict()}


class Session:
    def __init__(self, saved):
        self.model = net()
        self.optimizer = self.make()
        self.model.load_state_dict(saved["model"])
        self.optimizer.load_state_dict(saved["optimizer"])  # seen: discarded-optimizer-state (`Adam`)
        self.prepare()

    def make(self):
        return torch.optim.Adam(self.model.parameters(), lr=1e-3)

    def prepare(self):
        self.model.train()
        self.optimizer = self.make()


def resumed(saved):
    model = net()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    train(model, optimizer)


def resumed_then_renewed(saved):
    """A new phase of training begins after some steps."""
    model = net()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    optimizer.load_state_dict(saved["optimizer"])
    train(model, optimizer, 2)
    train(model, torch.optim.Adam(model.parameters(), lr=1e-4))


def another_class(saved):
    model = net()
    first = torch.optim.Adam(model.parameters(), lr=1e-3)
    first.load_state_dict(saved["optimizer"])
    train(model, torch.optim.SGD(model.parameters(), lr=1e-2, momentum=0.9))


def moved_by_hand(saved):
    model = net()
    first = torch.optim.Adam(model.parameters(), lr=1e-3)
    first.load_state_dict(saved["optimizer"])
    second = torch.optim.Adam(model.parameters(), lr=1e-4)
    second.state = first.state
    train(model, second)


def loaded_twice(saved):
    model = net()
    for _ in range(2):
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
        optimizer.load_state_dict(saved["optimizer"])
    train(model, optimizer)


def part_of_it(saved):
    """Only the head is trained now."""
    model = net()
    torch.optim.Adam(model.parameters(), lr=1e-3).load_state_dict(saved["optimizer"])
    model[0].requires_grad_(False)
    train(model, torch.optim.Adam(model[2].parameters(), lr=1e-3))


saved = checkpoint()
session = Session(saved)
train(session.model, session.optimizer)
for right in (resumed, resumed_then_renewed, another_class, moved_by_hand, loaded_twice, part_of_it):
    right(saved)
