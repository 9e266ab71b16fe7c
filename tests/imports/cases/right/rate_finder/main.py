import torch
from torch import nn
from finder import best_rate

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 1))
x = torch.randn(64, 4)
y = x.pow(2).sum(1, keepdim=True)
mse = nn.MSELoss()
rate = best_rate(net, mse, x, y, [10 ** (-k / 2) for k in range(1, 9)])
print("rate %.4f" % rate)
opt = torch.optim.SGD(net.parameters(), lr=rate)
for _ in range(40):
    opt.zero_grad()
    loss = mse(net(x), y)
    loss.backward()
    opt.step()
print("loss %.4f" % loss.item())
