import torch
import torch.nn.functional as F
from torch import nn


class SynthesizerTrn(nn.Module):
    def __init__(self, ssl_dim=16, hidden=24, segment=32):
        super().__init__()
        self.pre = nn.Conv1d(ssl_dim, hidden, 5, padding=2)
        self.proj = nn.Conv1d(hidden, 2 * hidden, 1)
        self.dec = nn.ConvTranspose1d(hidden, 1, 8, 4, 2)

    def forward(self, c):
        m, logs = self.proj(F.leaky_relu(self.pre(c), 0.1)).chunk(2, dim=1)
        z = m + torch.randn_like(m) * torch.exp(logs)
        return torch.tanh(self.dec(z)), (m, logs)


class MultiPeriodDiscriminator(nn.Module):
    def __init__(self, periods=(2, 4)):
        super().__init__()
        self.periods = periods
        self.convs = nn.ModuleList(nn.Sequential(nn.Conv1d(p, 16, 5, 2, 2), nn.LeakyReLU(0.1), nn.Conv1d(16, 1, 3, 1, 1)) for p in periods)

    def forward(self, y, y_hat):
        outs = [[conv(w.view(w.shape[0], p, -1)) for p, conv in zip(self.periods, self.convs)] for w in (y, y_hat)]
        return outs[0], outs[1]


def kl_loss(m, logs):
    return 0.5 * (m**2 + torch.exp(2 * logs) - 2 * logs - 1).mean()


def discriminator_loss(real, fake):
    return sum(((1 - r) ** 2).mean() + (f**2).mean() for r, f in zip(real, fake))


def generator_loss(fake):
    return sum(((1 - f) ** 2).mean() for f in fake)
