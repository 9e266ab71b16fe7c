"""A loss that depends on no parameter of the optimizer, so that no step changes anything."""

import torch
from torch import nn

torch.manual_seed(0)
net = nn.Linear(8, 4)
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)  # seen: optimizer-without-gradients
for _ in range(24):
    x = torch.randn(16, 8)
    shift = torch.zeros(4, requires_grad=True)
    optimizer.zero_grad()
    nn.functional.mse_loss(net(x).detach() + shift, x[:, :4]).backward()
    optimizer.step()
