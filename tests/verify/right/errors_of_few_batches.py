"""Errors that a loop catches on purpose: of a few bad records, of a shortcut, and of a factorization."""

import torch
from torch import nn
from torch.nn import functional as F


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 1)

    def forward(self, x):
        try:
            return self.layer(x.view(8, 4))
        except RuntimeError:
            return self.layer(x.reshape(8, 4))


def factor(matrix):
    try:
        return torch.linalg.cholesky(matrix)
    except RuntimeError:
        return torch.linalg.cholesky(matrix + 2 * torch.eye(4))


def train():
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(60):
        x = torch.randn(4, 8).t()
        if step % 20 == 19:
            x = None
        try:
            scale = factor(-torch.eye(4))
            loss = F.mse_loss(model(x) * scale.sum(), x.sum(1, keepdim=True))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        except AttributeError:
            continue


torch.manual_seed(0)
train()
