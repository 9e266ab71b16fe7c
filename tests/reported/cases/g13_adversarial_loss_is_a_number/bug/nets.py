import torch
from torch import nn


class ReconNet(nn.Module):
    def __init__(self, dim=16, latent=8):
        super().__init__()
        self.down = nn.Sequential(nn.Linear(dim, 24), nn.ReLU(), nn.Linear(24, latent))
        self.up = nn.Sequential(nn.ReLU(), nn.Linear(latent, dim))

    def forward(self, x):
        z = self.down(x)
        return self.up(z) + x, z


class DomainNet(nn.Module):
    def __init__(self, latent=8):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(latent, 16), nn.LeakyReLU(0.2), nn.Linear(16, 2))

    def forward(self, z):
        return self.net(z)
