import torch
from torch import nn
from report import grad_norm

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(5, 20), nn.Tanh(), nn.Linear(20, 1))
opt = torch.optim.Adam(net.parameters(), lr=0.01)
norms = []
for i in range(40):
    x = torch.randn(20, 5)
    loss = nn.functional.mse_loss(net(x), x.sum(1, keepdim=True).sin())
    loss.backward()
    norms.append(grad_norm(opt))
    opt.step()
print("loss %.4f" % loss.item(), "mean norm %.4f" % (sum(norms) / len(norms)))
