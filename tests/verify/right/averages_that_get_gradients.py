"""Teachers and targets get gradients that nobody uses, and follow by averages and copies: no optimizer steps on them."""

import copy

import torch
from torch import nn


def network():
    return nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 2))


class Averaged:
    """An average that is kept before the step, from half a step ago."""

    def __init__(self, model, decay):
        self.model = copy.deepcopy(model)
        self.decay = decay

    @torch.no_grad()
    def update(self, model):
        for mine, its in zip(self.model.parameters(), model.parameters(), strict=True):
            mine.lerp_(its, 1 - self.decay)


torch.manual_seed(0)
student = network()
teacher, target, running = copy.deepcopy(student), copy.deepcopy(student), network()
early = Averaged(student, 0.9)
optimizer = torch.optim.Adam(student.parameters(), lr=3e-3)
for step in range(60):
    x = torch.randn(32, 6)
    y = (x[:, 0] > 0).long()
    out = student(x)
    loss = nn.functional.cross_entropy(out, y)
    for other in (teacher, target, running, early.model):
        loss = loss + 0.2 * nn.functional.mse_loss(out, other(x + 0.1 * torch.randn_like(x)))
    optimizer.zero_grad()
    loss.backward()
    early.update(student)
    optimizer.step()
    for t, s in zip(teacher.parameters(), student.parameters(), strict=True):
        t.data.mul_(0.95).add_(s.data, alpha=0.05)
    for t, s in zip(running.parameters(), student.parameters(), strict=True):
        t.data = t.data + (s.data - t.data) / (step + 2)
    if step % 3 == 0:
        target.load_state_dict(student.state_dict())
