"""A GAN on a two dimensional ring of Gaussians; the discriminator is updated first."""
import math

import torch
from torch import nn

LATENT = 8


def real_batch(n):
    angle = torch.randint(0, 8, (n,)) * (2 * math.pi / 8)
    centre = torch.stack([angle.cos(), angle.sin()], dim=1)
    return centre + 0.05 * torch.randn(n, 2)


def mlp(i, o):
    return nn.Sequential(nn.Linear(i, 32), nn.LeakyReLU(0.2), nn.Linear(32, 32), nn.LeakyReLU(0.2), nn.Linear(32, o))


def main():
    torch.manual_seed(6)
    netG, netD = mlp(LATENT, 2), mlp(2, 1)
    optG = torch.optim.Adam(netG.parameters(), lr=1e-3, betas=(0.5, 0.999))
    optD = torch.optim.Adam(netD.parameters(), lr=1e-3, betas=(0.5, 0.999))
    bce = nn.BCEWithLogitsLoss()
    ones, zeros = torch.ones(64, 1), torch.zeros(64, 1)

    for step in range(30):
        real = real_batch(64)
        fake = netG(torch.randn(64, LATENT))

        lossD = bce(netD(real), ones) + bce(netD(fake.detach()), zeros)
        lossD.backward()  # verify: missing-zero-grad confirmed
        optD.step()

        optG.zero_grad()
        lossG = bce(netD(fake), ones)
        lossG.backward()
        optG.step()

        torch.cuda.empty_cache()  # verify: empty-cache-in-loop inconclusive
        if step % 10 == 0:
            print(f"[{step}] D {lossD.item():.3f} G {lossG.item():.3f}")


if __name__ == "__main__":
    main()
