import torch
import torch.nn.functional as F
from torch import nn

EPS = 1e-8


def normalise(x, dim=-1):
    x = x - x.mean(dim=dim, keepdim=True)
    return x / (x.pow(2).sum(dim=dim, keepdim=True) + EPS).sqrt()


def band_matrix(bands, bins):
    edges = torch.linspace(0, bins, bands + 1).long()
    matrix = torch.zeros(bands, bins)
    for band in range(bands):
        matrix[band, edges[band] : edges[band + 1]] = 1.0
    return matrix


class NegativeIntelligibility(nn.Module):
    def __init__(self, window=64, bands=8, frames=10):
        super().__init__()
        self.window = window
        self.frames = frames
        self.register_buffer("hann", torch.hann_window(window))
        self.register_buffer("bands", band_matrix(bands, window // 2 + 1))

    def envelope(self, wave):
        spectrum = torch.stft(wave, self.window, hop_length=self.window // 2, window=self.hann, center=False,
                              return_complex=True)
        power = spectrum.real.pow(2) + spectrum.imag.pow(2)
        return torch.matmul(self.bands, power).pow(0.5) + EPS

    def segments(self, envelope):
        return envelope.unfold(-1, self.frames, 1)

    def forward(self, estimate, target):
        if estimate.shape != target.shape:
            raise RuntimeError(f"shapes differ: {estimate.shape}, {target.shape}")
        clean = self.segments(self.envelope(target))
        noisy = self.segments(self.envelope(estimate))
        correlation = normalise(clean) * normalise(noisy)
        return -correlation.sum(-1).flatten(1).mean(1)
