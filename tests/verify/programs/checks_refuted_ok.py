"""Findings that a check of watched runs decides: all of these are wrong."""

import copy

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, DistributedSampler

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
    optimizer = torch.optim.SGD(model[0].parameters(), lr=0.01)
    model[1] = nn.Linear(8, 1)  # verify: optimizer-misses-parameters refuted
    optimizer.add_param_group({"params": list(model[1].parameters())})
    for _ in range(5):
        step(model, optimizer)


def loss_of_columns(given, y):
    return F.mse_loss(given, y.view(-1, 1))  # verify: target-shape-broadcast refuted


def columns():
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(3):
        step(model, optimizer, loss_of_columns)


class Agent:
    def __init__(self):
        self.policy = net()
        self.target = copy.deepcopy(self.policy)
        self.optimizer = torch.optim.SGD(self.policy.parameters(), lr=0.01)

    def learn(self):
        step(self.policy, self.optimizer)
        self.target.load_state_dict(self.policy.state_dict())  # verify: aliased-network refuted


def averaged():
    model = net(nn.BatchNorm1d(8))
    average = copy.deepcopy(model).eval()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(4):
        step(model, optimizer)
        with torch.no_grad():
            for mine, its in zip(average.parameters(), model.parameters()):  # verify: average-without-buffers refuted
                mine.mul_(0.9).add_(its, alpha=0.1)
            for mine, its in zip(average.buffers(), model.buffers()):
                mine.copy_(its)
            average(batch()[0])


def with_size(given, y):
    size = given.pow(2).mean()
    return F.mse_loss(given, y) + size  # verify: dead-loss-term refuted


def second_term():
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(4):
        step(model, optimizer, with_size)


class Tuned(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = net(nn.BatchNorm1d(8)).requires_grad_(False).eval()
        self.head = nn.Linear(1, 1)

    def train(self, mode=True):
        super().train(mode)
        self.body.eval()
        return self

    def forward(self, x):
        return self.head(self.body(x))


def frozen():
    model = Tuned()
    optimizer = torch.optim.SGD(model.head.parameters(), lr=0.01)
    for _ in range(4):
        model.train()  # verify: frozen-part-in-training-mode refuted
        step(model, optimizer)


def initialize(module):
    if isinstance(module, nn.Linear) and module.out_features == 1:
        nn.init.xavier_uniform_(module.weight)


def initialized():
    model = net()
    model.load_state_dict(net().state_dict())
    model.apply(initialize)  # verify: initialized-after-loading refuted
    step(model, torch.optim.SGD(model.parameters(), lr=0.01))


def hooked():
    model, seen = net(), []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(4):
        handle = model[0].register_forward_hook(lambda module, given, out: seen.append(0))  # verify: leaked-hook refuted
        step(model, optimizer)
        handle.remove()


def noisy(seed):
    torch.manual_seed(seed)  # verify: reseeded-in-loop refuted
    return torch.randn(8, 4)


def seeded():
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for seed in range(4):
        x, y = noisy(seed), torch.rand(8, 1)
        optimizer.zero_grad()
        F.mse_loss(model(x), y).backward()
        optimizer.step()


def copied():
    model, second = net(), net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    kept = model.state_dict()  # verify: uncopied-state-dict refuted
    for _ in range(3):
        step(model, optimizer)
    second.load_state_dict(kept)


class Layers(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = [nn.Linear(4, 4), nn.Linear(4, 4)]  # verify: unregistered-module refuted
        self.known = nn.ModuleList(self.layers)
        self.head = nn.Linear(4, 1)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x).tanh()
        return self.head(x)


def listed():
    model = Layers()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(3):
        step(model, optimizer)


def sampled():
    data = [torch.rand(4) for _ in range(32)]
    sampler = DistributedSampler(data, num_replicas=2, rank=0)  # verify: missing-set-epoch refuted
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for x in DataLoader(data, batch_size=8, sampler=sampler):
            optimizer.zero_grad()
            model(x).pow(2).mean().backward()
            optimizer.step()


agent = Agent()
parts = [seeded, late_head, columns, agent.learn, averaged, second_term, frozen, initialized, hooked, copied]
for part in (*parts, listed, sampled):
    part()
