"""Weights that are copied, renamed, loaded on top of others; new heads; and loads that change nothing, as they may."""

import copy

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)


def net():
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))


def train(model, steps=3):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(steps):
        optimizer.zero_grad()
        x = torch.randn(8, 4)
        F.mse_loss(model(x), x.sum(1, keepdim=True)).backward()
        optimizer.step()


def best():
    model, kept = net(), {}
    for _ in range(3):
        train(model)
        kept = {name: value.clone() for name, value in model.state_dict().items()}
        backup = copy.deepcopy(model.state_dict())
    model.load_state_dict(kept)
    model.load_state_dict(backup)


def unchanged():
    """A state that is put back before anything has changed it, and a file that gives no entry."""
    model = net()
    train(model)
    state = model.state_dict()
    model.load_state_dict(state)
    own = model.state_dict()
    own.update({name: value for name, value in {}.items() if name in own})
    model.load_state_dict(own)
    train(model)


def renamed():
    """The first try finds no name, the second does; and values that are copied by hand."""
    state = {f"module.{name}": value for name, value in net().state_dict().items()}
    model = net()
    model.load_state_dict(state, strict=False)
    model.load_state_dict({name.removeprefix("module."): value for name, value in state.items()})
    other = net()
    other.load_state_dict(state, strict=False)
    with torch.no_grad():
        for name, value in other.named_parameters():
            value.copy_(state[f"module.{name}"])
    train(model)
    train(other)


def new_head():
    """One layer is initialized after loading; and all are before."""
    state = net().state_dict()
    model = net()
    model.apply(lambda part: nn.init.xavier_uniform_(part.weight) if isinstance(part, nn.Linear) else None)
    model.load_state_dict(state)
    model[2].reset_parameters()
    train(model)
    model.apply(lambda part: nn.init.xavier_uniform_(part.weight) if isinstance(part, nn.Linear) else None)
    train(model)


def two_networks():
    policy = net()
    target = copy.deepcopy(policy)
    for _ in range(3):
        train(policy)
        target.load_state_dict(policy.state_dict())
        target(torch.randn(2, 4))


for part in (best, unchanged, renamed, new_head, two_networks):
    part()
