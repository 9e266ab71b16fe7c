import torch
from torch import nn
from modes import GradMode

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(2, 20), nn.Softplus(), nn.Linear(20, 1))
opt = torch.optim.Adam(net.parameters(), lr=0.02)


def batch(n):
    x = torch.rand(n, 2) * 2 - 1
    return x, (x.norm(dim=1, keepdim=True) < 0.7).float()


bce = nn.BCEWithLogitsLoss()
for epoch in range(4):
    for train in (False, True):
        with GradMode(train):
            for _ in range(10):
                x, y = batch(32)
                loss = bce(net(x), y)
                if train:
                    opt.zero_grad()
                    loss.backward()
                    opt.step()
        print(epoch, "train" if train else "valid", "%.4f" % loss.item())
