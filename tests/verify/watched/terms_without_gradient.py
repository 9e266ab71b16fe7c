"""Terms, parameters and losses that no gradient reaches, beside some that are meant to be so."""

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)


class Edges(nn.Module):
    def forward(self, out):
        hard = out.argmax(1).float()  # seen: dead-loss-term (`argmax`)
        return (hard[1:] - hard[:-1]).abs().mean()


class Total(nn.Module):
    def __init__(self):
        super().__init__()
        self.edges = Edges()
        self.weight = 0.5

    def forward(self, out, y):
        return F.cross_entropy(out, y) + self.weight * self.edges(out)


class Rounds(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(6, 8)
        self.head = nn.Linear(8, 3)

    def forward(self, x):
        return self.head(torch.round(self.body(x) * 4))  # seen: gradient-through-rounding (`body.weight`)


def train(model, loss_of, steps=5):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for _ in range(steps):
        x = torch.randn(12, 6)
        optimizer.zero_grad()
        loss_of(model(x), (x[:, 0] > 0).long()).backward()
        optimizer.step()


def misses(out, y):
    share = (out.argmax(1) != y).float().mean()  # seen: dead-loss-term
    terms = {"entropy": F.cross_entropy(out, y), "miss": 2 * share}
    return sum(terms.values())


def over(out, y):
    above = out > 1  # seen: dead-loss-term
    return (above.sum() / 10.0 + F.cross_entropy(out, y)) / 2


def again(out, y):
    loss = F.cross_entropy(out.detach(), y)
    return loss.requires_grad_()  # seen: loss-outside-graph


def net():
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))


criterion = Total()
train(Rounds(), F.cross_entropy, steps=16)
train(net(), criterion)
train(net(), misses)
train(net(), over)
train(net(), again)
