"""An optimizer that waits for more batches than an epoch has, so that no step is made at all."""

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
accumulate = 16
for epoch in range(4):
    optimizer.zero_grad()
    for i in range(8):
        x = torch.randn(8, 4)
        (F.mse_loss(net(x), x.sum(1, keepdim=True)) / accumulate).backward()
        if (i + 1) % accumulate == 0:  # seen: optimizer-never-steps (`Adam`)
            optimizer.step()
            optimizer.zero_grad()
