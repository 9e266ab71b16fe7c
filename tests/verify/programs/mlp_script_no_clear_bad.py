"""A plain script that fits a small MLP to a noisy sine."""
import math

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)

x = torch.linspace(-math.pi, math.pi, 512).unsqueeze(1)
y = torch.sin(x) + 0.05 * torch.randn_like(x)

net = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1))
opt = torch.optim.Adam(net.parameters(), lr=1e-3)

CENTRE_OUTPUT = False
if CENTRE_OUTPUT:
    net[-1].bias.fill_(y.mean().item())  # verify: inplace-on-leaf not-reached

for epoch in range(4):
    perm = torch.randperm(len(x))
    running = 0.0
    for start in range(0, len(x), 64):
        idx = perm[start:start + 64]
        loss = F.mse_loss(net(x[idx]), y[idx])
        loss.backward()  # verify: missing-zero-grad confirmed
        opt.step()
        running += loss.item()
    print(f"epoch {epoch}: {running / 8:.4f}")
