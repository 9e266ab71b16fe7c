"""Correct programs near the checks of terms, targets, samples, workers and frozen parts."""

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset, TensorDataset, WeightedRandomSampler, get_worker_info

torch.manual_seed(0)
STEPS = 24


def train(parameters, loss_of, steps=STEPS):
    optimizer = torch.optim.SGD(parameters, lr=0.01)
    for step in range(steps):
        loss = loss_of(torch.randn(16, 8), step)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def warm_up():
    """The weight of a term grows from zero."""
    net = nn.Linear(8, 4)
    train(net.parameters(), lambda x, step: F.mse_loss(net(x), x[:, :4]) + (0.0 if step < 30 else 0.1) * net(x).abs().mean())


def two_views():
    """Both sides of a loss come from one network, and a slow copy has its own loss without gradients."""
    net, slow = nn.Linear(8, 4), nn.Linear(8, 4)

    def loss_of(x, step):
        with torch.no_grad():
            goal = slow(x)
            for mine, its in zip(slow.parameters(), net.parameters()):
                mine.lerp_(its, 0.1)
        return F.mse_loss(net(x), net(x + 0.1)) + F.mse_loss(net(x), goal)

    train(net.parameters(), loss_of)


def closure_of_lbfgs():
    """Gradients exist only while the step runs."""
    net = nn.Linear(8, 1)
    optimizer = torch.optim.LBFGS(net.parameters(), max_iter=2, lr=0.1)

    def closure():
        optimizer.zero_grad()
        x = torch.ones(4, 8)
        loss = (net(x) - 1).pow(2).mean()
        loss.backward()
        return loss

    for _ in range(12):
        optimizer.step(closure)
        optimizer.zero_grad(set_to_none=True)


def ends_of_rows():
    """Class numbers that are ignored, and rows that end in a class which also stands elsewhere."""
    words, out = nn.Embedding(9, 8), nn.Linear(8, 9)

    def loss_of(x, step):
        rows = torch.randint(1, 9, (6, 10))
        for number in range(6):
            rows[number, 4 + number :] = 0
        loss = F.cross_entropy(out(words(rows)).flatten(0, 1), rows.flatten(), ignore_index=0)
        mixed = torch.randint(0, 3, (6, 10))
        return loss + F.cross_entropy(out(words(mixed)).transpose(1, 2), mixed)

    train([*words.parameters(), *out.parameters()], loss_of)


class Noisy(Dataset):
    """Each worker has a generator of its own."""

    def __init__(self):
        self.noise = None

    def __len__(self):
        return 48

    def __getitem__(self, number):
        worker = get_worker_info()
        if self.noise is None:
            self.noise = np.random.default_rng(worker.seed if worker else 0)
        own = np.random.default_rng(number)  # the same for a sample in each epoch, on purpose
        return (torch.as_tensor(self.noise.normal(size=8) + own.normal(size=8)).float(),)


def samples():
    net = nn.Linear(8, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    rows = TensorDataset(torch.randn(32, 8))
    heavy = WeightedRandomSampler([1.0] * 16 + [0.01] * 16, 32)
    loaders = [DataLoader(rows, 8, sampler=heavy), DataLoader(Noisy(), 4, num_workers=2), DataLoader(rows, 8)]
    for loader in loaders:
        for _ in range(3):
            for (x,) in loader:
                optimizer.zero_grad()
                F.mse_loss(net(x), x[:, :1]).backward()
                optimizer.step()


class Tuned(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Dropout())
        self.head = nn.Linear(8, 1)
        self.body.requires_grad_(False)

    def train(self, mode=True):
        super().train(mode)
        self.body.eval()
        return self

    def forward(self, x):
        return self.head(self.body(x))


def frozen():
    net = Tuned()
    net.train()
    train(net.head.parameters(), lambda x, step: F.mse_loss(net(x), x[:, :1]), 12)


def in_turn():
    """Each network is frozen while the other one is trained."""
    maker = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8))
    judge = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Linear(8, 1))
    optimizers = [torch.optim.SGD(net.parameters(), lr=0.01) for net in (maker, judge)]
    for step in range(24):
        maker.requires_grad_(step % 2 == 0)
        judge.requires_grad_(step % 2 == 1)
        loss = judge(maker(torch.randn(16, 8))).pow(2).mean()
        optimizers[step % 2].zero_grad()
        loss.backward()
        optimizers[step % 2].step()


def decayed_by_hand():
    """A decay adds a parameter to itself, with a negative factor."""
    net = nn.Linear(8, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    for _ in range(12):
        x = torch.randn(8, 8)
        optimizer.zero_grad()
        (net(x) - x[:, :1]).pow(2).mean().backward()
        optimizer.step()
        with torch.no_grad():
            for leaf in net.parameters():
                leaf.add_(leaf, alpha=-0.001)
                leaf.data.add_(leaf.data, alpha=-0.001)


warm_up()
decayed_by_hand()
two_views()
closure_of_lbfgs()
ends_of_rows()
samples()
frozen()
in_turn()
