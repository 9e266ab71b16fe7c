"""The model gives no number in eval mode only."""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
torch.set_num_threads(1)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 8)
        self.b = nn.Linear(8, 3)

    def forward(self, x):
        h = self.a(x)
        if not self.training:
            h = h * 0
            h = h / h.sum(1, keepdim=True)  # seen: nonfinite-value (without gradients)
        return self.b(h)


net = Net()
opt = torch.optim.Adam(net.parameters(), lr=0.001)
for epoch in range(4):
    net.train()
    for step in range(8):
        x, y = torch.randn(8, 4), torch.randint(0, 3, (8,))
        loss = F.cross_entropy(net(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
    net.eval()
    with torch.no_grad():
        total = 0.0
        for step in range(4):
            x, y = torch.randn(8, 4), torch.randint(0, 3, (8,))
            total += F.cross_entropy(net(x), y).item()
    print(epoch, total)
