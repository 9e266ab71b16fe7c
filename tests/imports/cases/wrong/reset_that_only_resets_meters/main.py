import torch
from torch import nn
from session import Session

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 1))
opt = torch.optim.SGD(net.parameters(), lr=1e-3)
session = Session(net, opt)
for i in range(40):
    x = torch.randn(32, 3)
    session.reset()
    loss = (net(x) - x.abs().sum(1, keepdim=True)).pow(2).mean()
    loss.backward()
    opt.step()
    session.note(loss.item())
print(session)
