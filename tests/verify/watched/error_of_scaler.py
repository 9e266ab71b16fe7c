"""Gradients are unscaled twice in a step."""

import torch
from torch import nn

torch.manual_seed(0)
net = nn.Linear(4, 4)
opt = torch.optim.SGD(net.parameters(), lr=0.01)
scaler = torch.amp.GradScaler("cpu")
for step in range(5):
    loss = net(torch.randn(2, 4)).mean()
    opt.zero_grad()
    scaler.scale(loss).backward()
    scaler.unscale_(opt)
    nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    scaler.unscale_(opt)  # seen: program-error (once per step)
    scaler.step(opt)
    scaler.update()
