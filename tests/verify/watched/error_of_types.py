"""NumPy makes numbers of double precision."""

import numpy as np
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
opt = torch.optim.SGD(net.parameters(), lr=0.01)
data = torch.from_numpy(np.random.rand(16, 4))
for step in range(5):
    loss = net(data).mean()  # seen: program-error (has type float64)
    loss.backward()
    opt.step()
