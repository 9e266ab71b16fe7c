"""A backbone is frozen by its parameters, another optimizer waits for its turn, and one part is moved by hand."""

import torch
from torch import nn

torch.manual_seed(0)


def batch():
    x = torch.randn(8, 4)
    return x, x.sum(1, keepdim=True)


def train(model, optimizers, steps):
    for step in range(steps):
        x, y = batch()
        model.zero_grad()
        (model(x) - y).pow(2).mean().backward()
        optimizers[step >= 20].step()


frozen = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
frozen[0].requires_grad_(False)
head = torch.optim.SGD(frozen[2].parameters(), lr=0.01)
train(frozen, (head, head), 12)

turns = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
matrices = [leaf for leaf in turns.parameters() if leaf.dim() > 1]
vectors = [leaf for leaf in turns.parameters() if leaf.dim() < 2]
train(turns, (torch.optim.SGD(matrices, lr=0.01), torch.optim.SGD(vectors, lr=0.01)), 28)
