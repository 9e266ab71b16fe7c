import torch
from torch import nn
from logs import log_step

torch.manual_seed(0)
net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 2))
opt = torch.optim.SGD(net.parameters(), lr=0.05)
for i in range(30):
    x = torch.randn(8, 1, 8, 8)
    y = (x.mean((1, 2, 3)) > 0).long()
    loss = nn.functional.cross_entropy(net(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    log_step(i, loss.item())
