import torch
from torch import nn
from probes import Probed

torch.manual_seed(0)
net = Probed(4, 12)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for i in range(60):
    x = torch.randn(8, 4)
    loss = nn.functional.mse_loss(net(x), x[:, :1] * 2)
    opt.zero_grad()
    loss.backward()
    opt.step()
print("loss %.4f" % loss.item(), "dead units", net.dead())
