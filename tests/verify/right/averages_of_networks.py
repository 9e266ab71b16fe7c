"""Networks that write into a trained one on purpose: look-ahead weights, an anchor, and an average that is loaded."""

import copy

import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
slow, average = copy.deepcopy(net).requires_grad_(False), copy.deepcopy(net).requires_grad_(False)
anchor = [leaf.detach().clone() for leaf in net.parameters()]
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(40):
    x = torch.randn(16, 4)
    loss = nn.functional.mse_loss(net(x), x[:, :2]) + 0.1 * nn.functional.mse_loss(net(x), average(x))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        for mine, its, start, mean in zip(net.parameters(), slow.parameters(), anchor, average.parameters()):
            mine.lerp_(start, 1e-3)
            mean.lerp_(mine, 0.1)
            its.add_(mine - its, alpha=0.5)
            mine.copy_(its)
        slow(x)
