"""Changes in place that a backward minds, by statements and by a step; and some that it does not."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
counts = torch.zeros(4)
for step in range(4):
    optimizer.zero_grad()
    gate = torch.sigmoid(model(torch.randn(8, 4)))
    gate += 0.1  # seen: inplace-on-saved-tensor
    counts += 1
    try:
        gate.sum().backward()
    except RuntimeError:
        pass
    try:
        model.weight[0] = 0.0  # seen: inplace-on-leaf
    except RuntimeError:
        pass

hidden = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 1))
optimizer = torch.optim.SGD(hidden.parameters(), lr=0.01)
for step in range(4):
    optimizer.zero_grad()
    out = hidden(torch.randn(8, 4))
    out.mean().backward(retain_graph=True)
    optimizer.step()  # seen: inplace-on-saved-tensor
    try:
        out.pow(2).mean().backward()
    except RuntimeError:
        optimizer.zero_grad()
    out = out.detach()
    out *= 2
