"""Normalization that stays in eval mode from the beginning is frozen on purpose; a part that was trained before is not."""

import contextlib

import torch
from torch import nn

torch.manual_seed(0)


@contextlib.contextmanager
def evaluating(net):
    was = [(module, module.training) for module in net.modules()]
    net.eval()  # verify: training-in-eval-mode refuted
    with torch.no_grad():
        yield
    for module, mode in was:
        module.training = mode


def freeze_norm(net):
    for module in net.modules():
        if isinstance(module, nn.BatchNorm1d):
            module.eval()  # verify: training-in-eval-mode refuted, says inconclusive


def step(net, optimizer):
    y = torch.randint(0, 2, (24,))
    loss = nn.functional.cross_entropy(net(torch.randn(24, 6) + y[:, None]), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def network():
    net = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.1), nn.Linear(8, 2))
    return net, torch.optim.SGD(net.parameters(), lr=0.02)


net, optimizer = network()
for _ in range(3):
    net.train()
    freeze_norm(net)
    for _ in range(5):
        step(net, optimizer)
        with evaluating(net):
            net(torch.randn(4, 6))

net, optimizer = network()
for epoch in range(3):
    for _ in range(5):
        step(net, optimizer)
    head = net[1:4]
    head.eval()  # verify: training-in-eval-mode confirmed, unseen by the linter
