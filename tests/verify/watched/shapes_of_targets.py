"""Targets that are broadcast against predictions, in a loss and in a difference; and pairs that are meant."""

import warnings

import torch
from torch import nn
from torch.nn import functional as F

warnings.simplefilter("ignore")
torch.manual_seed(0)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
criterion = nn.MSELoss()
for step in range(12):
    x = torch.randn(8, 4)
    target = x.sum(1)
    optimizer.zero_grad()
    loss = criterion(model(x), target)  # seen: broadcast-loss
    loss = loss + (model(x) - target).abs().mean()  # seen: broadcast-loss
    loss = loss + F.mse_loss(model(x).squeeze(1), target)
    out = model(x)
    pairs = (out - out.squeeze(1)).pow(2).mean()  # all pairs of predictions, which is meant
    (loss + 0.1 * pairs).backward()
    optimizer.step()
