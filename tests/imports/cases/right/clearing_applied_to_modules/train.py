import functools
import torch
import torch.nn.functional as F
from models import Net
from loading import get_loader
import clearings

net = Net()
opt = torch.optim.Adam(net.parameters())

for epoch in range(2):
    for x, y in get_loader():
        net.apply(clearings.zero)
        F.cross_entropy(net(x), y).backward()
        opt.step()
