"""Findings that a check of watched runs decides: all of these are right."""

import copy

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)


def net(*layers):
    return nn.Sequential(nn.Linear(4, 8), *layers, nn.Linear(8, 1))


def batch():
    x = torch.rand(8, 4)
    return x, x.sum(1, keepdim=True)


def step(model, optimizer, loss_of=F.mse_loss):
    x, y = batch()
    optimizer.zero_grad()
    loss_of(model(x), y).backward()
    optimizer.step()


def late_head():
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    model[1] = nn.Linear(8, 1)  # verify: optimizer-misses-parameters confirmed
    for _ in range(10):
        step(model, optimizer)


def loss_of_rows(given, y):
    return F.mse_loss(given, y.squeeze(1))  # verify: target-shape-broadcast confirmed, unseen by the linter


def rows():
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(3):
        step(model, optimizer, loss_of_rows)


class Agent:
    def __init__(self):
        self.policy = net()
        self.target = self.policy
        self.optimizer = torch.optim.SGD(self.policy.parameters(), lr=0.01)

    def sync(self):
        self.target.load_state_dict(self.policy.state_dict())

    def learn(self):
        step(self.policy, self.optimizer)
        self.sync()


class Agents(Agent):
    def __init__(self):
        super().__init__()
        self.online = net()
        self.teacher = self.online  # verify: aliased-network confirmed, unseen by the linter

    def sync(self):
        self.teacher.load_state_dict(self.online.state_dict())


def averaged():
    model = net(nn.BatchNorm1d(8))
    average = copy.deepcopy(model).eval()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(4):
        step(model, optimizer)
        with torch.no_grad():
            for mine, its in zip(average.parameters(), model.parameters()):  # verify: average-without-buffers confirmed, unseen by the linter
                mine.mul_(0.9).add_(its, alpha=0.1)
            average(batch()[0])


def with_errors(given, y):
    wrong = (given > y).float().mean()
    return F.mse_loss(given, y) + wrong  # verify: dead-loss-term confirmed


def dead_term():
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(3):
        step(model, optimizer, with_errors)


def frozen():
    model = net(nn.BatchNorm1d(8))
    model[:2].requires_grad_(False)
    model[1].eval()
    optimizer = torch.optim.SGD(model[2].parameters(), lr=0.01)
    for _ in range(3):
        model.train()  # verify: frozen-part-in-training-mode confirmed
        step(model, optimizer)


def initialize(module):
    if isinstance(module, nn.Linear):
        nn.init.xavier_uniform_(module.weight)


def initialized():
    model = net()
    model.load_state_dict(net().state_dict())
    model.apply(initialize)  # verify: initialized-after-loading confirmed, unseen by the linter
    step(model, torch.optim.SGD(model.parameters(), lr=0.01))


def hooked():
    model, seen = net(), []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(3):
        model[0].register_forward_hook(lambda module, given, out: seen.append(0))  # verify: leaked-hook confirmed
        step(model, optimizer)


def noisy():
    torch.manual_seed(3)  # verify: reseeded-in-loop confirmed
    return torch.randn(8, 4)


def seeded():
    model = net(nn.Dropout(0.2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(8):
        x, y = noisy(), torch.rand(8, 1)
        optimizer.zero_grad()
        F.mse_loss(model(x), y).backward()
        optimizer.step()


def best():
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    kept = model.state_dict()  # verify: uncopied-state-dict confirmed, unseen by the linter
    for _ in range(3):
        step(model, optimizer)
    model.load_state_dict(kept)


agents = Agents()
for part in (seeded, late_head, rows, agents.learn, averaged, dead_term, frozen, initialized, hooked, best):
    part()
