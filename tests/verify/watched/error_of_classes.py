"""Classes begin at 1."""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
net = nn.Linear(4, 3)
opt = torch.optim.SGD(net.parameters(), lr=0.01)
for step in range(5):
    y = torch.randint(1, 4, (16,))
    loss = F.cross_entropy(net(torch.randn(16, 4)), y)  # seen: program-error (Do the classes start at 1?)
    opt.zero_grad()
    loss.backward()
    opt.step()
