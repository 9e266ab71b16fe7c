import torch
import torch.nn.functional as F
from torch import nn


class VariationalDecoder(nn.Module):
    def __init__(self, width, latent, beta):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(width + 1, 32), nn.ReLU())
        self.mean = nn.Linear(32, latent)
        self.log_variance = nn.Linear(32, latent)
        self.decoder = nn.Sequential(nn.Linear(width + latent, 32), nn.ReLU(), nn.Linear(32, 1))
        self.latent = latent
        self.beta = beta

    def reparameterise(self, mean, log_variance):
        return mean + torch.exp(0.5 * log_variance) * torch.randn_like(mean)

    def loss(self, history, gaps, seq_mask):
        h = self.encoder(torch.cat([history, gaps.unsqueeze(-1)], dim=-1))
        mean, log_variance = self.mean(h), self.log_variance(h)
        z = self.reparameterise(mean, log_variance)
        output = self.decoder(torch.cat([history, z], dim=-1)).squeeze(-1)
        reconstruction = F.mse_loss(output, gaps, reduction="none") * seq_mask
        kl = (-0.5 * torch.sum(1 + log_variance - mean.pow(2) - log_variance.exp())) * seq_mask
        return (reconstruction + self.beta * kl).sum() / seq_mask.sum(), kl.sum() / seq_mask.sum()

    @torch.no_grad()
    def sample(self, history):
        z = torch.randn(*history.shape[:-1], self.latent)
        return self.decoder(torch.cat([history, z], dim=-1)).squeeze(-1)
