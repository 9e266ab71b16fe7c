"""Modes that `train()` undoes, averages without buffers, seeds of each step, gradients with graphs; and right ones."""

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


class Tuned(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = net().requires_grad_(False)
        self.head = nn.Linear(1, 1)

    def forward(self, x):
        return self.head(self.body(x))


def step(model, optimizer, noise=None):
    x, y = batch()
    optimizer.zero_grad()
    F.mse_loss(model(x if noise is None else x + noise), y).backward()
    optimizer.step()


def evaluate(model, undoes, loss=nn.MSELoss()):
    model.eval()
    with torch.no_grad():
        for _ in range(4):
            if undoes:
                model.train()  # seen: undone-evaluation-mode
            x, y = batch()
            loss(model(x), y)
    model.train()


def evaluated():
    for undoes in (False, True):
        model = net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        for _ in range(2):
            step(model, optimizer)
            evaluate(model, undoes)


def frozen():
    model = Tuned()
    optimizer = torch.optim.SGD(model.head.parameters(), lr=0.01)
    model.body.eval()
    for epoch in range(2):
        model.train()  # seen: frozen-part-in-training-mode (`body`)
        for _ in range(2):
            step(model, optimizer)


class Distilled(nn.Module):
    def __init__(self):
        super().__init__()
        self.teacher, self.student = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 1)), nn.Linear(4, 1)

    def forward(self, x):
        with torch.no_grad():
            goal = self.teacher(x)
        return nn.functional.mse_loss(self.student(x), goal)


def distilled():
    """The dropout of a teacher that runs without gradients."""
    model = Distilled()
    optimizer = torch.optim.SGD(model.student.parameters(), lr=0.01)
    model.teacher.eval()
    model.train()  # seen: frozen-part-in-training-mode (`teacher`)
    for _ in range(6):
        optimizer.zero_grad()
        model(torch.randn(8, 4)).backward()
        optimizer.step()


class Average:
    def __init__(self, model, buffers=False):
        self.model = copy.deepcopy(model).eval()
        self.buffers = buffers

    @torch.no_grad()
    def update(self, model):
        for mine, its in zip(self.model.parameters(), model.parameters()):
            mine.mul_(0.9).add_(its, alpha=0.1)  # seen: average-without-buffers (`BatchNorm1d`)
        if self.buffers:
            for mine, its in zip(self.model.buffers(), model.buffers()):
                mine.copy_(its)


def averaged(buffers):
    model = net(0.0)
    average = Average(model, buffers)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(4):
        step(model, optimizer)
        average.update(model)
        with torch.no_grad():
            average.model(batch()[0])


def noise(seed=0):
    torch.manual_seed(seed)  # seen: reseeded-in-loop (with 0)
    return 0.1 * torch.randn(8, 4)


def seeded():
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(7):
        step(model, optimizer, noise())


def spun(generator):
    generator.manual_seed(0)
    return 0.1 * torch.randn(8, 4, generator=generator)  # seen: reseeded-in-loop (drew the same numbers)


def seeded_again():
    model, generator = net(), torch.Generator()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(8):
        step(model, optimizer, spun(generator))


def penalized():
    critic = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    optimizer = torch.optim.SGD(critic.parameters(), lr=0.01)
    for _ in range(11):
        x = batch()[0].requires_grad_()
        critic(x).sum().backward(create_graph=True)  # seen: gradient-holds-graph
        penalty = (x.grad.norm(dim=1) - 1).pow(2).mean() + critic(x.detach()).mean()
        optimizer.zero_grad()
        penalty.backward()
        optimizer.step()


evaluated()
frozen()
distilled()
averaged(buffers=True)
averaged(buffers=False)
seeded()
seeded_again()
penalized()
