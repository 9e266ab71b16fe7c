import torch
from seeds import seed
from torch import nn

seed(1)
net = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 1))
optimizer = torch.optim.Adam(net.parameters())
for _ in range(9):
    optimizer.zero_grad()
    net(torch.rand(2, 3)).mean().backward()
    optimizer.step()
