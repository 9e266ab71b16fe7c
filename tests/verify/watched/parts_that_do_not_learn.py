"""Parts of models that are not trained, each for its own reason; and parts that are frozen as they should be."""

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(4, 8)
        self.head = nn.Linear(8, 1)
        self.spare = nn.Linear(8, 1)

    def forward(self, x):
        return self.head(torch.tanh(self.body(x)))


def train(model, optimizer, steps=25):
    for _ in range(steps):
        optimizer.zero_grad()
        x = torch.randn(8, 4)
        F.mse_loss(model(x), x.sum(1, keepdim=True)).backward()
        optimizer.step()


def unfed():
    model = Net()
    train(model, torch.optim.SGD(model.parameters(), lr=0.01))  # seen: parameter-without-gradient


def forgotten():
    model = Net()
    train(model, torch.optim.SGD(model.head.parameters(), lr=0.01))  # seen: parameter-without-optimizer


def at_rest():
    model = Net()
    groups = [{"params": model.body.parameters(), "lr": 0.0}, {"params": model.head.parameters()}]
    train(model, torch.optim.SGD(groups, lr=0.01))  # seen: zero-learning-rate


def frozen():
    model = Net()
    model.body.requires_grad_(False)
    model.spare.requires_grad_(False)
    train(model, torch.optim.SGD(model.parameters(), lr=0.01))


def warmed_up():
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: step / 20)
    for _ in range(20):
        train(model, optimizer, steps=1)
        schedule.step()


for part in (unfed, forgotten, at_rest, frozen, warmed_up):
    part()
