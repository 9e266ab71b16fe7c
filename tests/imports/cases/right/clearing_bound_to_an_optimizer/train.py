import functools
import torch
import torch.nn.functional as F
from models import Net
from loading import get_loader
import clearings

net = Net()
opt = torch.optim.Adam(net.parameters())
clear = functools.partial(clearings.clear, opt)
for epoch in range(2):
    for x, y in get_loader():
        clear()
        F.cross_entropy(net(x), y).backward()
        opt.step()
