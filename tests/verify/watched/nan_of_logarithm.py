"""A probability that is zero at a step which is not looked at."""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
torch.set_num_threads(1)
net = nn.Linear(4, 3)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(60):
    x = torch.randn(8, 4) * (1000 if step == 50 else 1)
    y = torch.randint(0, 3, (8,))
    p = F.softmax(net(x), dim=1)
    loss = -torch.log(p)[torch.arange(8), y].mean()  # seen: nonfinite-value (inputs between 0 and 1)
    opt.zero_grad()
    loss.backward()
    opt.step()
