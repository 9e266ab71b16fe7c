import copy
import torch
from torch import nn
from averaging import blend_

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(3, 12), nn.Tanh(), nn.Linear(12, 1))
slow = copy.deepcopy(net)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for i in range(80):
    x = torch.randn(16, 3)
    y = (x[:, :1] * x[:, 1:2]) + 0.3 * torch.randn(16, 1)
    opt.zero_grad()
    loss = nn.functional.mse_loss(net(x), y)
    loss.backward()
    opt.step()
    for a, b in zip(slow.parameters(), net.parameters()):
        blend_(a, b, 0.95)
print("loss %.4f" % loss.item(), "distance %.4f" % sum((a - b).abs().sum().item() for a, b in zip(slow.parameters(), net.parameters())))
