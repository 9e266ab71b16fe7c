"""The program ends itself at the first loss that is not finite, long after the steps that are looked at."""

import torch
from torch import nn

torch.manual_seed(0)
torch.set_num_threads(1)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 8)
        self.b = nn.Linear(8, 1)
        self.count = 0

    def forward(self, x):
        self.count += 1
        h = torch.tanh(self.a(x))
        scale = h.abs().sum() * (0 if self.count == 301 else 1)
        h = h / scale  # seen: nonfinite-value (DivBackward0)
        return self.b(torch.log1p(h.abs()))


net = Net()
opt = torch.optim.Adam(net.parameters(), lr=0.001)
for step in range(302):
    loss = net(torch.randn(8, 4)).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    if not torch.isfinite(loss):
        break
