"""Lines that raise as the linter says."""

import contextlib

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
net = nn.Linear(4, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)


def step(loss):
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


class Early(nn.Module):
    def __init__(self):
        self.layer = nn.Linear(4, 1)  # verify: super-init-order confirmed
        super().__init__()


def penalty(x):
    mixed = x.detach()
    score = net(mixed).sum()
    return torch.autograd.grad(score, mixed)  # verify: grad-outside-graph confirmed


def targets(x):
    return F.binary_cross_entropy_with_logits(net(x), x[:, :1].long())  # verify: loss-target-dtype confirmed


def shapes(x):
    return net(x.T)  # verify: shape-mismatch confirmed, unseen by the linter


def types(x):
    return net(x.double())  # verify: dtype-mismatch confirmed, unseen by the linter


def removed(x):
    return torch.symeig(x.T @ x)  # verify: removed-api confirmed


def weights():
    labels = torch.tensor([0, 0, 1])
    counts = torch.bincount(labels)  # verify: absent-class-weights confirmed
    logits = nn.Linear(4, 3)(torch.randn(3, 4))
    F.cross_entropy(logits, labels, weight=1 / counts.float()).backward()


def state():
    cell, head = nn.GRUCell(4, 4), nn.Linear(4, 1)
    h = torch.zeros(8, 4)
    for x in torch.randn(3, 8, 4):
        h = cell(x, h)  # verify: undetached-hidden-state confirmed, unseen by the linter
        loss = head(h).pow(2).mean()
        loss.backward()


for _ in range(3):
    x = torch.randn(8, 4)
    step(net(x).pow(2).mean())
    for failing in (penalty, targets, shapes, types, removed):
        with contextlib.suppress(RuntimeError, TypeError, AttributeError):
            failing(x)
    with contextlib.suppress(AttributeError):
        Early()
with contextlib.suppress(RuntimeError):
    state()
weights()
