"""The program looks at its loss before the backward pass, and ends at the first one that is not finite."""

import sys

import torch
from torch import nn

torch.manual_seed(0)
net = nn.Linear(4, 1)
opt = torch.optim.SGD(net.parameters(), lr=1e-3)
for step in range(80):
    share = net(torch.rand(8, 4))
    share = torch.sigmoid(share) * (step < 60)
    loss = -torch.log(share).mean()  # seen: nonfinite-value (LogBackward0)
    if not torch.isfinite(loss):
        print("loss is not finite: stop")
        sys.exit(0)
    opt.zero_grad()
    loss.backward()
    opt.step()
