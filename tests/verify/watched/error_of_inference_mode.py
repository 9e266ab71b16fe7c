"""Data of inference mode meet a layer that is trained."""

import torch
from torch import nn

torch.manual_seed(0)
net = nn.Linear(4, 4)
opt = torch.optim.SGD(net.parameters(), lr=0.01)
with torch.inference_mode():
    data = torch.randn(64, 4) * 2
for step in range(5):
    x = data[step * 4 : step * 4 + 4]
    loss = (net(x) * x).mean()  # seen: program-error (made in `torch.inference_mode()`)
    opt.zero_grad()
    loss.backward()
    opt.step()
