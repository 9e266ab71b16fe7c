"""Samples that training never draws, workers that draw the same numbers, frozen parts that move, idle schedules."""

import random

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset, TensorDataset

torch.manual_seed(0)
ROWS = TensorDataset(torch.randn(32, 8))


def fit(net, batches, optimizer=None):
    optimizer = optimizer or torch.optim.SGD(filter(lambda leaf: leaf.requires_grad, net.parameters()), lr=0.01)
    for (x,) in batches:
        optimizer.zero_grad()
        F.mse_loss(net(x), x[:, :1]).backward()
        optimizer.step()


class EvenOnly:
    """Draws 32 samples, but only the even ones."""

    def __len__(self):
        return 32

    def __iter__(self):
        return iter([number // 2 * 2 for number in torch.randperm(32).tolist()])


class FirstHalf:
    """A batch sampler that forgets the second half."""

    def __len__(self):
        return 4

    def __iter__(self):
        return iter(torch.randperm(16).view(4, 4).tolist())


def left_out():
    net = nn.Linear(8, 1)
    loader = DataLoader(ROWS, batch_size=8, sampler=EvenOnly())  # seen: samples-left-out (16 were never drawn)
    for _ in range(3):
        fit(net, loader)


def half():
    rows = TensorDataset(torch.randn(32, 8))
    net = nn.Linear(8, 1)
    loader = DataLoader(rows, batch_sampler=FirstHalf())  # seen: samples-left-out (16 were never drawn)
    for _ in range(3):
        fit(net, loader)


def first_batch():
    net = nn.Linear(8, 1)
    loader = DataLoader(ROWS, batch_size=8)  # seen: samples-left-out (same first 8 of 32)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    for _ in range(12):
        fit(net, [next(iter(loader))], optimizer)


class Noisy(Dataset):
    def __init__(self, noise=None):
        self.noise = noise  # seen: workers-alike (`noise`)

    def __len__(self):
        return 32

    def __getitem__(self, number):
        noise = self.noise.normal(size=8) if self.noise else random.random()
        return (ROWS[number][0] + torch.as_tensor(noise).float(),)


def seed(worker):
    random.seed(7)


def workers():
    net = nn.Linear(8, 1)
    stored = DataLoader(Noisy(np.random.default_rng(3)), batch_size=4, num_workers=2)
    seeded = DataLoader(Noisy(), batch_size=4, num_workers=2, worker_init_fn=seed)  # seen: workers-alike (`random`)
    plain = DataLoader(Noisy(), batch_size=4, num_workers=2)
    for loader in (stored, seeded, plain):
        fit(net, loader)


class Tuned(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8))
        self.head = nn.Linear(8, 1)
        self.body.requires_grad_(False)

    def forward(self, x):
        return self.head(self.body(x))


def frozen():
    net = Tuned()
    net.eval()
    net.body.train()
    net.train()  # seen: frozen-statistics (its statistics moved)
    fit(net, [(torch.randn(8, 8),)] * 12)


def other_optimizer():
    net = nn.Linear(8, 1)
    schedule = torch.optim.lr_scheduler.StepLR(torch.optim.SGD(net.parameters(), lr=0.1), 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    for _ in range(3):
        fit(net, [(torch.randn(8, 8),)], optimizer)
        schedule.step()  # seen: pytorch-warning (never steps)


def beyond_its_end():
    net = nn.Linear(8, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=4)
    for _ in range(18):
        fit(net, [(torch.randn(8, 8),)], optimizer)
        schedule.step()  # seen: vanished-learning-rate (ends after 4)


other_optimizer()
left_out()
half()
first_batch()
workers()
frozen()
beyond_its_end()
