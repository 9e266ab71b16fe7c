"""A variational autoencoder whose loop skips the batches that fail."""
import torch
from torch import nn
from torch.nn import functional as F


class VAE(nn.Module):
    def __init__(self, data_dim=20, latent=4):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(data_dim, 32), nn.ELU())
        self.mu = nn.Linear(32, latent)
        self.logvar = nn.Linear(32, latent)
        self.dec = nn.Sequential(nn.Linear(latent, 32), nn.ELU(), nn.Linear(32, data_dim))

    def forward(self, x):
        h = self.enc(x)
        mu, logvar = self.mu(h), self.logvar(h)
        std = torch.exp(0.5 * logvar)
        std.add_(1e-4)  # verify: inplace-on-saved-tensor confirmed
        z = mu + std * torch.randn_like(mu)
        return self.dec(z), mu, logvar


def elbo(recon, x, mu, logvar):
    rec = F.mse_loss(recon, x, reduction="sum") / len(x)
    kl = -0.5 * torch.mean(torch.sum(1 + logvar - mu.pow(2) - logvar.exp(), dim=1))
    return rec + kl


torch.manual_seed(15)
vae = VAE()
optimizer = torch.optim.Adam(vae.parameters(), lr=1e-3)
basis = torch.randn(4, 20)
done, skipped = 0, 0
for batch_idx in range(16):
    batch = torch.randn(32, 4) @ basis
    optimizer.zero_grad()
    try:
        recon, mu, logvar = vae(batch)
        loss = elbo(recon, batch, mu, logvar)
        loss.backward()
    except RuntimeError as err:
        skipped += 1
        if skipped == 1:
            print("skipping batch:", str(err).split(":")[0])
        continue
    optimizer.step()
    done += 1
print(f"{done} batches done, {skipped} skipped")
