"""Gradients are cleared unused, and that is meant: they were collected, or only looked at, or are bad, or another's."""

import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 1))
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)


def loss(scale=1.0):
    x = torch.randn(16, 6)
    return scale * (net(x) - x[:, :1]).pow(2).mean()


def of_task(scale):
    optimizer.zero_grad()  # verify: cleared-before-step refuted
    loss(scale).backward()
    return [p.grad.clone() for p in net.parameters()]


for _ in range(5):  # the step uses the sum of what was collected
    collected = [of_task(scale) for scale in (1.0, -0.3, 0.5)]
    for p, *parts in zip(net.parameters(), *collected):
        p.grad.copy_(sum(parts))
    optimizer.step()

for _ in range(5):  # sharpness-aware: the second backward is at other weights
    moved = []
    for again in (False, True):
        optimizer.zero_grad()  # verify: cleared-before-step refuted
        loss().backward()
        if not again:
            moved = [0.05 * p.grad / p.grad.norm() for p in net.parameters()]
        for p, by in zip(net.parameters(), moved):
            p.data.add_(by, alpha=-1 if again else 1)
    optimizer.step()

for number in range(9):  # bad batches are left out
    optimizer.zero_grad()  # verify: cleared-before-step refuted, says inconclusive
    loss().backward()
    if number % 5 not in (1, 2):
        optimizer.step()

for _ in range(5):  # back from weights that are too far away
    for by in (0.2, -0.1, -0.1):
        for p in net.parameters():
            p.data.mul_(1 + by)
        optimizer.zero_grad()  # verify: cleared-before-step refuted
        loss().backward()
    optimizer.step()

importance = [torch.zeros_like(p) for p in net.parameters()]
for _ in range(6):  # only looked at
    optimizer.zero_grad()  # verify: cleared-before-step refuted
    loss().backward()
    for total, p in zip(importance, net.parameters()):
        total += p.grad.pow(2)
optimizer.zero_grad()
loss().backward()
optimizer.step()
