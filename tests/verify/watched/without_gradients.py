"""A backbone that an optimizer holds runs without gradients; a teacher and an evaluation do too, and may."""

import torch
from torch import nn

torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = nn.Linear(4, 8)
        self.head = nn.Linear(8, 1)

    def forward(self, x):
        with torch.no_grad():  # seen: training-under-no-grad
            hidden = self.backbone(x)
        return self.head(hidden)


net, teacher = Net(), nn.Linear(4, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
for _ in range(15):
    x = torch.randn(8, 4)
    with torch.no_grad():
        target = teacher(x)
    optimizer.zero_grad()
    (net(x) - target).pow(2).mean().backward()
    optimizer.step()

net.eval()
with torch.no_grad():
    for _ in range(4):
        net(torch.randn(8, 4))
