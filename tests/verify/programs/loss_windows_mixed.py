"""Losses kept for a moving report: in windows that the loop empties itself, and for as long as a pass lasts."""
import torch
from torch import nn

torch.manual_seed(75)
torch.set_num_threads(1)
net = nn.Sequential(nn.Linear(5, 16), nn.Sigmoid(), nn.Linear(16, 2))
optimizer = torch.optim.Adagrad(net.parameters(), lr=0.02)


def step():
    x = torch.randn(12, 5)
    loss = nn.functional.cross_entropy(net(x), (x.sum(dim=1) > 0).long())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss


def windows(steps, every=6):
    recent = []
    for index in range(steps):
        recent.append(step())  # verify: undetached-accumulation refuted
        if len(recent) == every:
            print(index, torch.stack(recent).mean().item())
            recent.clear()


def passes(count, length):
    for index in range(count):
        losses = []
        for _ in range(length):
            loss = step()
            losses.append(loss)  # verify: undetached-accumulation confirmed
        print(index, torch.stack(losses).mean().item())


windows(20)
passes(3, 6)
