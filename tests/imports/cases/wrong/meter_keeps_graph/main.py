import torch
from torch import nn
from stats import Stats

torch.manual_seed(0)
net = nn.Linear(3, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.05)
stats = Stats("mse", "mae")
for i in range(60):
    x = torch.randn(16, 3)
    err = net(x) - x.mean(1, keepdim=True)
    mse = err.pow(2).mean()
    opt.zero_grad()
    mse.backward()
    opt.step()
    stats.record(mse=mse.item(), mae=err.abs().mean())
print(stats.table())
