import torch
from torch import nn
from torch.utils.data import TensorDataset

from data import Batches


def forever(source):
    epoch = 0
    while True:
        source.sampler.set_epoch(epoch)
        epoch += 1
        yield from source


torch.manual_seed(0)
x = torch.randn(64, 3)
net = nn.Linear(3, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.05)
batches, count = Batches(TensorDataset(x, x.sum(1, keepdim=True)), 0, 2).make(8)
stream = forever(batches)
for i in range(3 * count):
    a, b = next(stream)
    opt.zero_grad()
    (net(a) - b).pow(2).mean().backward()
    opt.step()
