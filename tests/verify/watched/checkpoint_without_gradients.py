"""A reentrant checkpoint of a part that also learns elsewhere, and an evaluation of it."""

import warnings

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

warnings.simplefilter("ignore")
torch.manual_seed(0)
body, head = nn.Sequential(nn.Linear(4, 8), nn.Tanh()), nn.Linear(8, 1)
optimizer = torch.optim.SGD([*body.parameters(), *head.parameters()], lr=0.01)
for _ in range(9):
    x = torch.randn(6, 4)
    optimizer.zero_grad()
    features = checkpoint(body, x, use_reentrant=True)  # seen: pytorch-warning (no input of this checkpoint)
    (head(features).pow(2).mean() + body(x).mean()).backward()
    optimizer.step()
    with torch.no_grad():
        checkpoint(body, x, use_reentrant=True)
