"""Loaders whose epochs, or workers, are alike; and loaders that only look like it."""

import torch
from torch import nn
from torch.utils.data import DataLoader, DistributedSampler, IterableDataset, TensorDataset, get_worker_info

torch.manual_seed(0)
features = torch.randn(32, 4)
data = TensorDataset(features, features.sum(1, keepdim=True))


def start():
    model = nn.Linear(4, 1)
    return model, torch.optim.SGD(model.parameters(), lr=0.01)


def step(model, optimizer, x, y):
    optimizer.zero_grad()
    nn.functional.mse_loss(model(x), y).backward()
    optimizer.step()


def evaluate(model, loader):
    with torch.no_grad():
        return sum(nn.functional.mse_loss(model(x), y).item() for x, y in loader)


def distributed(tells):
    if tells:
        sampler = DistributedSampler(data, num_replicas=2, rank=0)
    else:
        sampler = DistributedSampler(data, num_replicas=2, rank=0)  # seen: epochs-alike (`set_epoch`)
    loader = DataLoader(data, batch_size=8, sampler=sampler)
    model, optimizer = start()
    for epoch in range(3):
        if tells:
            sampler.set_epoch(epoch)
        for x, y in loader:
            step(model, optimizer, x, y)


def seeded(seed):
    model, optimizer = start()
    loader = DataLoader(data, batch_size=8, shuffle=True)
    for epoch in range(3):
        torch.manual_seed(seed or epoch)  # seen: epochs-alike (seeded again)
        for x, y in loader:
            step(model, optimizer, x, y)


def made_anew(generator=None):
    model, optimizer = start()
    for _ in range(3):
        own = generator or torch.Generator().manual_seed(7)
        for x, y in DataLoader(data, batch_size=8, shuffle=True, generator=own):  # seen: epochs-alike (shuffles)
            step(model, optimizer, x, y)


def searched():
    """Each rate sees the same samples, on purpose, and so does each evaluation."""
    loader = DataLoader(data, batch_size=8, shuffle=True)
    for _ in range(3):
        torch.manual_seed(3)
        model, optimizer = start()
        for x, y in loader:
            step(model, optimizer, x, y)
        torch.manual_seed(4)
        evaluate(model, loader)


def in_order():
    model, optimizer = start()
    for _ in range(3):
        for x, y in DataLoader(data, batch_size=8):
            step(model, optimizer, x, y)


class Stream(IterableDataset):
    def __init__(self, shares):
        self.shares = shares

    def __iter__(self):
        worker = get_worker_info()
        first, every = (worker.id, worker.num_workers) if self.shares else (0, 1)
        for number in range(first, len(data), every):  # seen: workers-alike (came 2 times)
            yield data[number]


def streamed():
    model, optimizer = start()
    for x, y in DataLoader(Stream(True), batch_size=4, num_workers=2):
        step(model, optimizer, x, y)
    loader = DataLoader(Stream(False), batch_size=4, num_workers=2)
    for x, y in loader:
        step(model, optimizer, x, y)


distributed(tells=True)
distributed(tells=False)
seeded(0)
seeded(5)
made_anew(torch.Generator())
made_anew()
searched()
in_order()
streamed()
