"""A loss that is cut off, and a scaler whose scale collapses; a loss that moves beside them."""

import torch
from torch import nn

torch.manual_seed(0)


def constant():
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(12):
        optimizer.zero_grad()
        loss = (model(torch.randn(8, 4)).clamp(5, 6) - 1).pow(2).mean()
        loss.backward()  # seen: constant-loss
        optimizer.step()


def collapsing():
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    scaler = torch.amp.GradScaler("cpu", init_scale=64.0)
    for step in range(12):
        optimizer.zero_grad()
        loss = model(torch.randn(8, 4)).pow(2).mean() * (float("inf") if step else 1.0)  # seen: nonfinite-value
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()  # seen: loss-scale-collapse


def healthy():
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**16)
    for _ in range(12):
        optimizer.zero_grad()
        scaler.scale(model(torch.randn(8, 4)).pow(2).mean()).backward()
        scaler.step(optimizer)
        scaler.update()


constant()
collapsing()
healthy()
