"""The gradient of a root at zero, at a step which is not looked at: the loss is finite there."""

import torch
from torch import nn

torch.manual_seed(0)
torch.set_num_threads(1)
net = nn.Linear(4, 4)
opt = torch.optim.SGD(net.parameters(), lr=0.01)
for step in range(80):
    x = torch.randn(8, 4)
    out = net(x)
    a = out[0]
    b = out[0] if step == 55 else out[1]
    d = ((a - b) ** 2).sum()
    dist = torch.sqrt(d)  # seen: nonfinite-value (SqrtBackward0)
    loss = dist + out.mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
