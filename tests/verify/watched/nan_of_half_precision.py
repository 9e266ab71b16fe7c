"""Half precision is too small for one batch; gradients are clipped, so weights survive."""

import torch
from torch import nn

torch.manual_seed(0)
torch.set_num_threads(1)
net = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 1))
opt = torch.optim.SGD(net.parameters(), lr=0.01)
for step in range(70):
    x = torch.randn(8, 16) * (200 if step == 45 else 1)
    h = net(x).half()
    energy = h * h * 1000  # seen: nonfinite-value (MulBackward0)
    loss = energy.float().mean()
    opt.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(net.parameters(), 0.01)
    opt.step()
