import torch
from torch import nn
from optim_setup import build_optimizer

torch.manual_seed(0)
net = nn.Linear(6, 6)
opt = build_optimizer(net, {"name": "adam", "lr": 0.01, "decay": 1e-2})
for i in range(50):
    x = torch.randn(16, 6)
    opt.zero_grad()
    net.zero_grad()
    loss = (net(x) - x).pow(2).mean()
    loss.backward()
    opt.step()
    if i % 25 == 0:
        print(i, "%.4f" % loss.item())
print("end %.4f" % loss.item())
