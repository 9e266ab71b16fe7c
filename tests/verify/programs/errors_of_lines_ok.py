"""Lines that do not raise."""

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
net = nn.Linear(4, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)


class Late(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 1)  # verify: super-init-order refuted


def penalty(x):
    x = x.detach().requires_grad_()
    score = net(x).sum()
    return torch.autograd.grad(score, x)  # verify: grad-outside-graph refuted


def targets(x):
    return F.binary_cross_entropy_with_logits(net(x), (x[:, :1] > 0).float())  # verify: loss-target-dtype refuted


def shapes(x):
    return net(x.T.T)  # verify: shape-mismatch refuted


def types(x):
    return net(x.double().float())  # verify: dtype-mismatch refuted


def read(x):
    return x.T.mT  # verify: removed-api refuted, says inconclusive


def state():
    cell, head = nn.GRUCell(4, 4), nn.Linear(4, 1)
    h = torch.zeros(8, 4)
    for x in torch.randn(5, 8, 4):
        h = cell(x, h.detach())  # verify: undetached-hidden-state refuted
        loss = head(h).pow(2).mean()
        loss.backward()


labels = torch.tensor([0, 0, 1, 2])
counts = torch.bincount(labels)  # verify: absent-class-weights refuted
head = nn.Linear(4, 3)
for _ in range(5):
    x = torch.randn(4, 4)
    optimizer.zero_grad()
    loss = F.cross_entropy(head(x), labels, weight=1 / counts.float())
    loss = loss + targets(x) + shapes(x).mean() + types(x).mean() + Late().layer(x).mean()
    loss.backward()
    optimizer.step()
    penalty(x)
    read(x)
state()
