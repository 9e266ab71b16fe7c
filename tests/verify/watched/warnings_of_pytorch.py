"""Programs that PyTorch warns about, with warnings off, and correct versions of them."""

import warnings

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

warnings.simplefilter("ignore")
torch.manual_seed(0)


def net(width=3):
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, width))


def train(model, loss_of, steps=4, schedule=None, early=False):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    moving = None if schedule is None else schedule(optimizer)
    for _ in range(steps):
        if moving is not None and early:
            moving.step()  # seen: pytorch-warning (before its optimizer)
        optimizer.zero_grad()
        loss_of(model, torch.randn(6, 4)).backward()
        optimizer.step()
        if moving is not None and not early:
            moving.step()


def divergence(model, x):
    return F.kl_div(F.log_softmax(model(x), 1), F.softmax(x[:, :3], 1))  # seen: pytorch-warning (number of classes)


def divergence_of_batches(model, x):
    return F.kl_div(F.log_softmax(model(x), 1), F.softmax(x[:, :3], 1), reduction="batchmean")


def rows(model, x):
    return F.mse_loss(model(x), x[:1, :3])  # seen: pytorch-warning (the shape (6, 3) and the target (1, 3))


def one_value(model, x):
    return F.mse_loss(model(x), torch.tensor(1.0))


class Stored(nn.Module):
    def __init__(self, reentrant):
        super().__init__()
        self.body, self.head = net(), nn.Linear(3, 1)
        self.reentrant = reentrant

    def forward(self, x):
        if self.reentrant:
            x = checkpoint(self.body, x, use_reentrant=True)  # seen: training-under-no-grad
        else:
            x = checkpoint(self.body, x, use_reentrant=False)
        return self.head(x)


def stored(model, x):
    return model(x).pow(2).mean()


def arrays():
    written, read = np.zeros(4, np.float32), np.ones(4, np.float32)
    read.flags.writeable = False
    torch.from_numpy(written)
    torch.from_numpy(read.copy())
    torch.as_tensor(read, dtype=torch.float64)
    torch.as_tensor(read)  # seen: pytorch-warning (read-only array)
    return torch.from_numpy(read)  # seen: pytorch-warning (read-only array)


for loss in (divergence, divergence_of_batches, rows, one_value):
    train(net(), loss)
for reentrant in (True, False):
    train(Stored(reentrant), stored, steps=9)
for early in (True, False):
    train(net(), one_value, schedule=lambda optimizer: torch.optim.lr_scheduler.StepLR(optimizer, 2), early=early)
arrays()
