"""Gradients come from torch.autograd.grad and are assigned by hand, with PCGrad-like projection."""
from collections import namedtuple

import torch
from torch import nn
from torch.nn import functional as F

torch.set_num_threads(1)
torch.manual_seed(33)
Batch = namedtuple("Batch", "x reg cls")


def sample(n=24):
    x = torch.randn(n, 8)
    return Batch(x, x[:, :1] ** 2, (x[:, 1] > 0).long())


class TwoHead(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(8, 16), nn.ReLU())
        self.reg, self.cls = nn.Linear(16, 1), nn.Linear(16, 2)

    def forward(self, x):
        z = self.trunk(x)
        return self.reg(z), self.cls(z)


def project(a, b):
    dot = (a * b).sum()
    return a if dot >= 0 else a - dot / (b.norm() ** 2 + 1e-12) * b


model = TwoHead()
opt = torch.optim.Adam(model.parameters(), lr=5e-3)
ps = list(model.parameters())

for it in range(22):
    b = sample()
    r, c = model(b.x)
    l1, l2 = F.mse_loss(r, b.reg), F.cross_entropy(c, b.cls)
    g1 = torch.autograd.grad(l1, ps, retain_graph=True, allow_unused=True)
    g2 = torch.autograd.grad(l2, ps, allow_unused=True)
    for p, u, v in zip(ps, g1, g2):
        u = torch.zeros_like(p) if u is None else u
        v = torch.zeros_like(p) if v is None else v
        p.grad = project(u, v) + project(v, u)
    opt.step()  # verify: step-without-backward refuted
print(l1.item(), l2.item())
