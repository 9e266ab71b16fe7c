import torch
from torch import nn
from smooth import Smoother

torch.manual_seed(0)
net = nn.Linear(5, 5)
opt = torch.optim.Adam(net.parameters(), lr=0.02)
smooth = Smoother(0.9)
while smooth.n < 60:
    x = torch.randn(12, 5)
    loss = nn.functional.l1_loss(net(x), -x)
    opt.zero_grad(set_to_none=True)
    loss.backward()
    opt.step()
    smooth(loss)
print("smoothed %.4f" % smooth.value)
