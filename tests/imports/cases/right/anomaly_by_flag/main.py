import torch
from torch import nn
from options import OPTIONS
from debug import watch

torch.manual_seed(0)
net = nn.GRU(2, 8, batch_first=True)
head = nn.Linear(8, 1)
opt = torch.optim.Adam([*net.parameters(), *head.parameters()], lr=0.02)
with watch(OPTIONS["debug"]):
    for i in range(OPTIONS["steps"]):
        x = torch.rand(16, 6, 2)
        h, _ = net(x)
        loss = (head(h[:, -1]) - x.prod(dim=2).sum(dim=1, keepdim=True)).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
print("loss %.4f" % loss.item())
