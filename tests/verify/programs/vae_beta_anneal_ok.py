"""A variational autoencoder with beta annealing and an optional contractive penalty."""
import tempfile
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F


class VAE(nn.Module):
    def __init__(self, dim=12, latent=3):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(dim, 24), nn.SiLU(), nn.Linear(24, 2 * latent))
        self.decoder = nn.Sequential(nn.Linear(latent, 24), nn.SiLU(), nn.Linear(24, dim))

    def forward(self, x):
        mu, logvar = self.encoder(x).chunk(2, dim=1)
        std = logvar.mul(0.5).exp()
        z = std.clone()
        z.mul_(torch.randn_like(std)).add_(mu)  # verify: inplace-on-saved-tensor refuted
        return self.decoder(z), mu, logvar


def train(vae, optimizer, steps, contractive=0.0):
    kept = []
    for step in range(steps):
        x = torch.randn(32, 3) @ vae.basis
        recon, mu, logvar = vae(x)
        kl = -0.5 * (1 + logvar - mu.square() - logvar.exp()).sum(dim=1).mean()
        loss = F.mse_loss(recon, x) + min(1.0, step / steps) * 0.1 * kl
        optimizer.zero_grad()
        if contractive > 0:
            loss.backward(retain_graph=True)  # verify: retain-graph-in-loop not-reached
            (contractive * mu.square().sum()).backward()
        else:
            loss.backward()
        optimizer.step()
        kept.append({"step": step, "loss": loss.detach(), "kl": kl.detach()})  # verify: undetached-accumulation refuted
    return kept


def main():
    torch.manual_seed(65)
    vae = VAE()
    vae.register_buffer("basis", torch.randn(3, 12))
    optimizer = torch.optim.AdamW(vae.parameters(), lr=3e-3)
    entries = train(vae, optimizer, steps=30)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "entries.pt"
        torch.save(entries, path)
        restored = torch.load(path)
    print("first", restored[0]["loss"].item(), "last", restored[-1]["loss"].item())


if __name__ == "__main__":
    main()
