"""Updates that do nothing: at a rate of zero, rounded away, or clipped too late."""

import torch
from torch import nn
from torch.optim.lr_scheduler import LambdaLR
from torch.utils.data import DataLoader, TensorDataset, WeightedRandomSampler

torch.manual_seed(0)
inputs = torch.randn(60, 4)
labels = (torch.arange(60) >= 40).long() + (torch.arange(60) >= 55).long()


def train(model, optimizer, batches):
    for batch, label in batches:
        loss = nn.functional.cross_entropy(model(batch).float(), label)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def part(size=10):
    return [(inputs[at], labels[at]) for at in torch.randperm(60).split(size)]


model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
schedule = LambdaLR(optimizer, lambda step: min(1.0, step / 4))
for _ in range(4):
    train(model, optimizer, part())
    schedule.step()  # seen: zero-learning-rate (first 6 steps)
del optimizer, schedule

half = nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 3)).to(torch.bfloat16)
half[0].weight.data[:2] *= 1e-3
half[2].weight.data[:, :2] *= 1e-3
rounding = torch.optim.SGD(half.parameters(), lr=1e-4)  # seen: rounded-updates
for _ in range(8):
    train(half, rounding, [(batch.bfloat16(), label) for batch, label in part()])

late = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(2):
    for batch, label in part():
        loss = nn.functional.cross_entropy(model(batch), label)
        late.zero_grad()
        loss.backward()
        late.step()
        nn.utils.clip_grad_norm_(model.parameters(), 0.1)  # seen: clip-outside-step

counts = torch.bincount(labels)
share = (counts.sum() // counts - 1)[labels].double()
sampler = WeightedRandomSampler(share, 60)  # seen: class-never-drawn
train(model, late, DataLoader(TensorDataset(inputs, labels), batch_size=20, sampler=sampler))
