"""The student follows the teacher."""

import copy

import torch
from torch import nn

torch.manual_seed(0)
student = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
teacher = copy.deepcopy(student).requires_grad_(False)
optimizer = torch.optim.SGD(student.parameters(), lr=0.1)


@torch.no_grad()
def follow(slow, fast, rate):
    for mine, its in zip(slow.parameters(), fast.parameters()):
        mine.mul_(1 - rate).add_(its, alpha=rate)  # seen: average-in-wrong-direction


for _ in range(12):
    x = torch.randn(16, 4)
    goal = teacher(x)
    loss = nn.functional.mse_loss(student(x + 0.1), goal) + nn.functional.mse_loss(student(x), x[:, :2])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    follow(student, teacher, 0.05)
