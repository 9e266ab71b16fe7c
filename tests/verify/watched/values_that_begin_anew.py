"""Sums and lists that begin anew in each episode hold nothing for long: what keeps their graphs is the log."""

from collections import defaultdict

import torch
from torch import nn


class Monitor:
    def __init__(self):
        self.rows = defaultdict(list)

    def add(self, **values):
        for name, value in values.items():
            self.rows[name].append(value)  # seen: undetached-accumulation


def episode(net, bonus):
    logs = []
    for _ in range(5):
        dist = torch.distributions.Categorical(logits=net(torch.randn(4)))
        logs.append(dist.log_prob(dist.sample()))
        bonus = bonus + dist.entropy()
    return logs, bonus


def train(keep, start):
    net = nn.Linear(4, 3)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
    for _ in range(20):
        logs, bonus = episode(net, start())
        loss = -torch.stack(logs).mean() - 0.01 * bonus
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        keep(bonus)


def keep_it(bonus):
    history.append(bonus)  # seen: undetached-accumulation


torch.manual_seed(0)
monitor, history, right = Monitor(), [], []
train(lambda bonus: monitor.add(bonus=bonus, length=5), lambda: 0)
train(keep_it, lambda: torch.zeros(()))
train(lambda bonus: right.append(bonus.item()), lambda: 0.0)
