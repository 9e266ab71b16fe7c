import torch
from torch import nn
from setup_run import setup

setup(seed=0)
net = nn.Linear(4, 1)
opt = torch.optim.Adam(net.parameters(), lr=0.05)
for i in range(60):
    x = torch.randn(32, 4)
    loss = nn.functional.softplus(-net(x) * x[:, :1].sign()).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
print("loss %.4f" % loss.item())
