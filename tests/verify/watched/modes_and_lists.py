"""Steps in the mode of an evaluation, and layers that no module knows of; and what only looks like these."""

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)


class Hidden(nn.Module):
    def __init__(self, layers):
        super().__init__()
        self.layers = layers
        self.head = nn.Linear(8, 1)

    def forward(self, x):
        for layer in self.layers:
            x = torch.tanh(layer(x))  # seen: parameter-without-module (2 parameters that are used here)
        return self.head(x)


def train(model, steps, by_hand=()):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(steps):
        optimizer.zero_grad()
        x = torch.randn(8, 8)
        F.mse_loss(model(x), x.sum(1, keepdim=True)).backward()
        optimizer.step()
        with torch.no_grad():
            for leaf in by_hand:
                leaf -= 0.01 * leaf.grad
                leaf.grad = None


def forgotten():
    train(Hidden([nn.Linear(8, 8)]), 16)


def trained_by_hand():
    layer = nn.Linear(8, 8)
    train(Hidden([layer]), 16, by_hand=[*layer.parameters()])


def model():
    return nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Linear(8, 1))


def validate(net):
    net.eval()  # seen: training-in-eval-mode (`BatchNorm1d`)
    with torch.no_grad():
        net(torch.randn(8, 8))


def left_in_eval_mode():
    net = model()
    for _ in range(3):
        train(net, 6)
        validate(net)


class Drops(nn.Module):
    def __init__(self):
        super().__init__()
        self.dropout = nn.Dropout(0.5)
        self.head = nn.Linear(8, 1)

    def forward(self, x):
        x = F.dropout(x, 0.5, self.training)
        x = F.dropout(x, 0.1)  # seen: dropout-ignores-mode
        return self.head(self.dropout(x))


def drops_in_eval_mode():
    net = Drops()
    train(net, 3)
    net.eval()
    net.dropout.train()
    with torch.no_grad():
        for _ in range(4):
            net(torch.randn(8, 8))


def switched_back():
    net = model()
    for _ in range(3):
        net.train()
        train(net, 6)
        net.eval()


def frozen_from_the_beginning():
    net = model()
    net.eval()
    train(net, 12)


parts = (forgotten, trained_by_hand, left_in_eval_mode, drops_in_eval_mode, switched_back, frozen_from_the_beginning)
for part in parts:
    part()
