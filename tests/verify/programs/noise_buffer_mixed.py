"""Multiplicative noise with a preallocated buffer that is refilled through out= arguments."""
import torch
from torch import nn


class NoisyNet(nn.Module):
    """One buffer per network, refilled for every layer that wants noise."""

    def __init__(self, depth, batch=16, width=12):
        super().__init__()
        self.first = nn.Linear(4, width)
        self.hidden = nn.ModuleList(nn.Linear(width, width) for _ in range(depth - 1))
        self.last = nn.Linear(width, 1)
        self.register_buffer("noise", torch.ones(batch, width))

    def refill(self):
        torch.rand(self.noise.shape, out=self.noise)

    def forward(self, x):
        self.refill()
        h = torch.tanh(self.first(x)) * self.noise
        for layer in self.hidden:
            torch.rand(self.noise.shape, out=self.noise)  # verify: inplace-on-saved-tensor confirmed
            h = torch.tanh(layer(h)) * self.noise
        return self.last(h)


def shallow(steps):
    torch.set_num_threads(1)
    torch.manual_seed(1)
    mask = torch.empty(16, 12)
    a, b = nn.Linear(4, 12), nn.Linear(12, 1)
    opt = torch.optim.Adam(list(a.parameters()) + list(b.parameters()), lr=1e-2)
    for _ in range(steps):
        mask.bernoulli_(0.8)  # verify: inplace-on-saved-tensor refuted
        x = torch.randn(16, 4)
        loss = (b(a(x).relu() * mask) - x.sum(1, keepdim=True)).square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
    return loss.item()


def deep(steps):
    net = NoisyNet(depth=3)
    opt = torch.optim.Adam(net.parameters(), lr=1e-2)
    for _ in range(steps):
        x = torch.randn(16, 4)
        loss = (net(x) - x.sum(1, keepdim=True)).square().mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
    return loss.item()


if __name__ == "__main__":
    print("shallow", shallow(14))
    try:
        print("deep", deep(14))
    except RuntimeError as e:
        print("deep failed:", e.__class__.__name__)
