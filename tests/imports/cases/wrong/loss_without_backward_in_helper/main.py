import torch
from torch import nn
from passes import forward_backward

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(2, 16), nn.Sigmoid(), nn.Linear(16, 2))
opt = torch.optim.Adam(net.parameters(), lr=0.01)
for i in range(50):
    opt.zero_grad()
    value = forward_backward(net, torch.rand(16, 2))
    opt.step()
print("value %.4f" % value)
