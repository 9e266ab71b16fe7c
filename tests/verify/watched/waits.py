"""Values that are taken out of the model at each layer, and others once for a log or a decision."""

import torch
from torch import nn

torch.manual_seed(0)


class Monitored(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(5))
        self.peak = 0.0

    def forward(self, x):
        for layer in self.layers:
            x = x + layer(x)
            self.peak = max(self.peak, x.detach().abs().max().item(), float(x.max()))  # seen: host-synchronization (on a GPU)
        return x


class Plain(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(5))
        self.calls = torch.zeros(())

    def forward(self, x):
        for layer in self.layers:
            x = x + layer(x)
            self.calls += 1
            if self.calls.item() < 0:
                break
        return x


def train(model, steps=14):
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    log = []
    for _ in range(steps):
        x = torch.rand(16, 8)
        for row in x:
            row.sum().item()
        losses = {"mean": (model(x) - 1).pow(2).mean(), "decay": sum(item.pow(2).sum() for item in model.parameters())}
        log.append({name: value.item() for name, value in losses.items()})
        optimizer.zero_grad()
        sum(losses.values()).backward()
        optimizer.step()
    print(f"{losses['mean']:.3f}", losses["decay"], log[-1])


def act(model, episodes=12):
    """A policy that is asked for one action after the other: each needs the one before."""
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for _ in range(episodes):
        state, total = torch.rand(1, 8), 0.0
        for _ in range(6):
            chosen = model(state).softmax(1)[0, 0]
            total = total + chosen.log()
            state = state + chosen.item()
        optimizer.zero_grad()
        (-total).backward()
        optimizer.step()


train(Monitored())
train(Plain())
act(nn.Linear(8, 2))
