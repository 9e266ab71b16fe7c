import torch
from torch import nn
from gradwork import prepare_gradients

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(8, 32), nn.ELU(), nn.Linear(32, 8))
opt = torch.optim.SGD(net.parameters(), lr=0.2)
for it in range(60):
    x = torch.randn(32, 8)
    opt.zero_grad()
    norm = prepare_gradients(net, (net(x) - x.flip(1)).pow(2).mean(), limit=0.5)
    opt.step()
    if it % 20 == 0:
        print(it, "norm %.4f" % norm)
print("last norm %.4f" % norm)
