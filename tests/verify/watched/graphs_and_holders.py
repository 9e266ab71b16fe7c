"""Graphs that are kept, retained, or made for nothing; and lists beside them that hold numbers."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)


class Meter:
    def __init__(self):
        self.values = []
        self.total = 0.0

    def update(self, value):
        self.values.append(value)  # seen: undetached-accumulation


meter, losses, total = Meter(), [], 0.0
for step in range(24):
    optimizer.zero_grad()
    loss = model(torch.randn(8, 4)).pow(2).mean()
    loss.backward(retain_graph=True)  # seen: retain-graph-in-loop
    optimizer.step()
    meter.update(loss)
    losses.append(loss.item())
    total = total + loss  # seen: undetached-accumulation
    optimizer.step_count = step

model.eval()
scores = []
for _ in range(5):
    scores.append(model(torch.randn(8, 4)).mean().item())  # seen: evaluation-with-grad
for _ in range(5):
    x = torch.randn(8, 4, requires_grad=True)
    model(x).sum().backward()  # an attack: the graph is used
    scores.append(x.grad.abs().max().item())
