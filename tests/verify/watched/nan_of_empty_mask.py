"""A mask without a one at one step: zero by zero, inside the loss."""

import torch
from torch import nn

torch.manual_seed(0)
torch.set_num_threads(1)
net = nn.Linear(4, 4)
opt = torch.optim.SGD(net.parameters(), lr=0.01)
for step in range(30):
    x = torch.randn(8, 4)
    mask = torch.zeros(8) if step == 12 else torch.ones(8)
    out = net(x).pow(2).mean(1)
    loss = (out * mask).sum() / mask.sum()  # seen: nonfinite-value (inputs that are 0)
    opt.zero_grad()
    loss.backward()
    opt.step()
