"""An optimizer that nothing steps; and optimizers that rest, that were replaced, or that wait."""

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)


class Pair:
    def __init__(self):
        self.body = nn.Sequential(nn.Linear(4, 8), nn.Tanh())
        self.head = nn.Linear(8, 1)

    def backward(self):
        x = torch.randn(8, 4)
        F.mse_loss(self.head(self.body(x)), x.sum(1, keepdim=True)).backward()


def half_forgotten():
    pair = Pair()
    optimizers = {  # seen: optimizer-never-steps (`Adam`)
        "body": torch.optim.Adam(pair.body.parameters(), lr=1e-3),
        "head": torch.optim.SGD(pair.head.parameters(), lr=1e-2),
    }
    for _ in range(30):
        for optimizer in optimizers.values():
            optimizer.zero_grad()
        pair.backward()
        optimizers["head"].step()


def head_first():
    """The body's turn comes later."""
    pair = Pair()
    body, head = (torch.optim.SGD(part.parameters(), lr=1e-2) for part in (pair.body, pair.head))
    for step in range(40):
        body.zero_grad(), head.zero_grad()
        pair.backward()
        (head if step < 25 else body).step()


def replaced():
    pair = Pair()
    parameters = [*pair.body.parameters(), *pair.head.parameters()]
    old = torch.optim.Adam(parameters, lr=1e-3)
    new = torch.optim.SGD(parameters, lr=1e-2)
    for _ in range(30):
        new.zero_grad()
        pair.backward()
        new.step()
    return old


def by_hand():
    pair = Pair()
    body, head = (torch.optim.SGD(part.parameters(), lr=1e-2) for part in (pair.body, pair.head))
    for _ in range(30):
        body.zero_grad(), head.zero_grad()
        pair.backward()
        head.step()
        with torch.no_grad():
            for leaf in pair.body.parameters():
                leaf -= 0.01 * leaf.grad


for program in (half_forgotten, head_first, replaced, by_hand):
    program()
