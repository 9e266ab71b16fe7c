import torch
from torch import nn
from tta import predict

torch.manual_seed(3)
net = nn.Sequential(nn.Linear(4, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 3))
opt = torch.optim.Adam(net.parameters(), lr=0.02)
loss_fn = nn.CrossEntropyLoss()
for _ in range(40):
    x = torch.randn(64, 4)
    y = x[:, :3].argmax(1)
    opt.zero_grad()
    loss = loss_fn(net(x), y)
    loss.backward()
    opt.step()
shifted = torch.randn(128, 4) * 1.5 + 0.5
print("train loss %.4f" % loss.item())
print("shifted accuracy %.3f" % (predict(net, shifted).argmax(1) == shifted[:, :3].argmax(1)).float().mean())
