"""Statistics that are estimated anew, parts that adapt, seeds with their state put back, gradients that are let go of."""

import copy
import warnings

import torch
from torch import nn
from torch.nn import functional as F

warnings.simplefilter("ignore")
torch.manual_seed(0)


def net(drops=0.2):
    return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(drops), nn.Linear(8, 1))


def batch():
    x = torch.rand(8, 4)
    return x, x.sum(1, keepdim=True)


def step(model, optimizer, noise=None):
    x, y = batch()
    optimizer.zero_grad()
    F.mse_loss(model(x if noise is None else x + noise), y).backward()
    optimizer.step()


def estimated():
    """Evaluation, then passes in training mode for the statistics, then a hard batch is chosen by its loss."""
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(2):
        model.eval()
        with torch.no_grad():
            for _ in range(3):
                F.mse_loss(model(batch()[0]), batch()[1])
        model.train()
        with torch.no_grad():
            for _ in range(3):
                model(batch()[0])
            F.mse_loss(model(batch()[0]), batch()[1])
        step(model, optimizer)


def adapts():
    """A part is evaluated on its own, and trained with the whole; another one is put back each time."""
    model = nn.ModuleList([net(), net().requires_grad_(False)])
    optimizer = torch.optim.SGD(model[0].parameters(), lr=0.01)
    for _ in range(4):
        model.train()
        model[1].eval()
        step(model[0], optimizer)
        with torch.no_grad():
            model[1](batch()[0])
        model[0].eval()
        with torch.no_grad():
            model[0](batch()[0])


def own_statistics():
    """A teacher in training mode normalizes by its batches; an average of a state dictionary has buffers."""
    model = net(0.0)
    teacher, average = copy.deepcopy(model), copy.deepcopy(model).eval()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(4):
        step(model, optimizer)
        with torch.no_grad():
            for mine, its in zip(teacher.parameters(), model.parameters()):
                mine.lerp_(its, 0.1)
            for name, value in average.state_dict().items():
                value.copy_(0.9 * value + 0.1 * model.state_dict()[name])
            teacher(batch()[0])
            average(batch()[0])


class Momentum(nn.Module):
    """A key encoder in training mode that follows the query encoder."""

    def __init__(self):
        super().__init__()
        self.query = net(0.0)
        self.key = copy.deepcopy(self.query).requires_grad_(False)

    def forward(self, x, way):
        for mine, its in zip(self.key.parameters(), self.query.parameters()):
            if way == "assigned":
                mine.data = 0.9 * mine.data + 0.1 * its.data
            else:
                mine.data.mul_(0.9).add_(its.data, alpha=0.1)
        with torch.no_grad():
            goal = self.key(x)
        return self.query(x) - goal


def follows():
    for way in ("assigned", "in place"):
        for rests in (False, True):
            model = Momentum()
            if rests:
                model.key.eval()
                model.train()
            optimizer = torch.optim.SGD(model.query.parameters(), lr=0.05)
            for _ in range(12):
                x, y = batch()
                optimizer.zero_grad()
                F.mse_loss(model(x, way), y).backward()
                optimizer.step()


def tunes():
    """A second fit with an optimizer of its own, in eval mode from its first step."""
    model = net()
    for trains in (True, False):
        model.train(trains) if trains else model.eval()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        for _ in range(12):
            step(model, optimizer)


def fixed():
    torch.manual_seed(0)
    return 0.1 * torch.randn(8, 4)


def seeds():
    """The same noise at each step, which is meant; nothing else draws, or another seed each time."""
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    x, y = batch()
    for number in range(7):
        optimizer.zero_grad()
        F.mse_loss(model(x + fixed()), y).backward()
        optimizer.step()
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for number in range(7):
        torch.manual_seed(number)
        step(model, optimizer)


def lets_go():
    critic = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    optimizer = torch.optim.SGD(critic.parameters(), lr=0.01)
    x = batch()[0].requires_grad_()
    for _ in range(11):
        x.grad = None
        critic(x).sum().backward(create_graph=True)
        penalty = (x.grad.norm(dim=1) - 1).pow(2).mean() + critic(x.detach()).mean()
        optimizer.zero_grad()
        penalty.backward()
        optimizer.step()


for part in (estimated, adapts, own_statistics, follows, tunes, seeds, lets_go):
    part()
