import torch
from torch import nn
from epoch import run_epoch
from memory import tidy

torch.manual_seed(0)
net = nn.Bilinear(4, 4, 1)
opt = torch.optim.Adagrad(net.parameters(), lr=0.2)
for epoch in range(3):
    print(epoch, "%.4f" % run_epoch(net, opt, batches=20))
    tidy()
