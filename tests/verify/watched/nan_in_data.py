"""One value of the data is not a number."""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
torch.set_num_threads(1)
net = nn.Linear(4, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.01)
data = torch.randn(400, 4)
data[330, 2] = float("nan")
for step in range(100):
    x = data[step * 4 : step * 4 + 4]
    out = net(x)  # seen: nonfinite-value (a tensor without a graph)
    loss = F.mse_loss(out, torch.ones(4, 1))
    opt.zero_grad()
    loss.backward()
    opt.step()
