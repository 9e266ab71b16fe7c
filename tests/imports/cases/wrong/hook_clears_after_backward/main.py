import torch
from torch import nn
from hooks import Hooks

torch.manual_seed(0)
net = nn.Conv1d(1, 1, 5, padding=2, bias=False)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
hooks = Hooks(opt, every=10)
kernel = torch.tensor([[[0.1, 0.2, 0.4, 0.2, 0.1]]])
for step in range(40):
    x = torch.randn(8, 1, 30)
    y = nn.functional.conv1d(x, kernel, padding=2)
    loss = (net(x) - y).pow(2).mean()
    loss.backward()
    hooks.after_backward(step, loss)
    opt.step()
    hooks.after_step(step)
