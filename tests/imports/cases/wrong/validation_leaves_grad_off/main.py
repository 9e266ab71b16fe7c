import torch
from torch import nn
from validate import validate

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(2, 8), nn.ReLU(), nn.Linear(8, 2))
opt = torch.optim.Adam(net.parameters(), lr=0.02)
for epoch in range(3):
    net.train()
    for _ in range(10):
        x = torch.randn(16, 2)
        loss = nn.functional.cross_entropy(net(x), (x[:, 0] > x[:, 1]).long())
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(epoch, "%.4f" % loss.item(), "valid %.3f" % validate(net))
