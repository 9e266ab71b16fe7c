"""Parameters that come after the optimizer, hooks that pile up; and parameters and hooks that do not."""

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(4, 8)
        self.head = nn.Linear(8, 1)

    def forward(self, x):
        return self.head(torch.tanh(self.body(x)))

    def grow(self):
        self.head = nn.Linear(8, 1)


def steps(model, optimizer, count=12):
    for _ in range(count):
        optimizer.zero_grad()
        model.zero_grad()
        x = torch.randn(8, 4)
        F.mse_loss(model(x), x.sum(1, keepdim=True)).backward()
        optimizer.step()


def grown():
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    model.grow()  # seen: parameter-after-optimizer (`head.weight`)
    steps(model, optimizer)


def thawed():
    model = Net()
    model.body.requires_grad_(False)
    optimizer = torch.optim.SGD([leaf for leaf in model.parameters() if leaf.requires_grad], lr=0.01)
    steps(model, optimizer)
    for leaf in model.body.parameters():
        leaf.requires_grad = True  # seen: parameter-after-optimizer
    steps(model, optimizer)


def added():
    """The optimizer is told, or made again."""
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    model.extra = nn.Linear(4, 1)
    model.register_forward_hook(lambda module, args, output: output + module.extra(args[0]))
    optimizer.add_param_group({"params": model.extra.parameters()})
    steps(model, optimizer)
    model.body = nn.Linear(4, 8)
    steps(model, torch.optim.SGD(model.parameters(), lr=0.01))


def head_only():
    """Others get gradients, and are not to be trained."""
    model = Net()
    steps(model, torch.optim.SGD(model.head.parameters(), lr=0.01))


class Meter:
    def __init__(self, model):
        self.sizes = []
        self.handles = [part.register_forward_hook(self.measure) for part in model.children()]  # seen: leaked-hook (4 hooks)

    def measure(self, module, args, output):
        self.sizes.append(output.numel())

    def remove(self):
        for handle in self.handles:
            handle.remove()


def measured(removes):
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(4):
        meter = Meter(model)
        steps(model, optimizer, count=3)
        if removes:
            meter.remove()


grown()
thawed()
added()
head_only()
measured(removes=True)
measured(removes=False)
