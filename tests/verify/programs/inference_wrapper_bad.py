"""Autoencoder trained through a serving wrapper that picks the precision and gradient mode."""
from contextlib import contextmanager

import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(18)


@contextmanager
def run_mode(net, training):
    was = net.training
    net.train(training)
    with torch.set_grad_enabled(training):
        yield net
    net.train(was)


class Service:
    def __init__(self, net):
        self.net = net

    def __call__(self, x):
        with torch.set_grad_enabled(False):  # verify: training-under-no-grad confirmed, unseen by the linter
            return self.net(x)  # verify: training-under-no-grad confirmed


class Auto(nn.Module):
    def __init__(self):
        super().__init__()
        self.down, self.up = nn.Linear(12, 3), nn.Linear(3, 12)

    def forward(self, x):
        return self.up(torch.tanh(self.down(x)))


net = Auto()
scale = nn.Parameter(torch.ones(12))
service = Service(net)
opt = torch.optim.Adam([*net.parameters(), scale], lr=1e-2)

for i in range(15):
    x = torch.randn(32, 12)
    with run_mode(net, training=True):
        recon = service(x) * scale
        loss = (recon - x).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
print("recon error", loss.item(), "scale mean", scale.mean().item())
