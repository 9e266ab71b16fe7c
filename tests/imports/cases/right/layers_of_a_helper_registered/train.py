import torch
from net import Net
net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for x, y in [(torch.randn(4, 8), torch.randn(4, 8))] * 9:
    optimizer.zero_grad()
    (net(x) - y).pow(2).mean().backward()
    optimizer.step()

