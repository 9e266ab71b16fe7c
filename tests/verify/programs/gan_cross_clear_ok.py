"""A GAN whose discriminator is cleared after the generator's backward pass."""
from types import SimpleNamespace

import torch
from torch import nn
from torch.nn import functional as F


def make_state(latent=5):
    gen = nn.Sequential(nn.Linear(latent, 20), nn.ReLU(), nn.Linear(20, 4))
    disc = nn.Sequential(nn.Linear(4, 20), nn.LeakyReLU(0.2), nn.Linear(20, 1))
    return SimpleNamespace(
        latent=latent, gen=gen, disc=disc,
        gen_opt=torch.optim.Adam(gen.parameters(), lr=1e-3),
        disc_opt=torch.optim.Adam(disc.parameters(), lr=1e-3),
    )


def train_step(s, real):
    n = len(real)
    fake = s.gen(torch.randn(n, s.latent))
    s.gen_opt.zero_grad()
    gen_loss = F.binary_cross_entropy_with_logits(s.disc(fake), torch.ones(n, 1))
    gen_loss.backward()
    # the pass above left gradients in the discriminator too
    s.disc_opt.zero_grad()  # verify: cleared-before-step refuted
    s.gen_opt.step()

    logits = s.disc(torch.cat([real, fake.detach()]))
    target = torch.cat([torch.ones(n, 1), torch.zeros(n, 1)])
    disc_loss = F.binary_cross_entropy_with_logits(logits, target)
    disc_loss.backward()  # verify: missing-zero-grad refuted
    s.disc_opt.step()
    return gen_loss.item(), disc_loss.item()


def find_bad_operator(s, real, tries=10):
    with torch.autograd.detect_anomaly():  # verify: anomaly-detection-left-on not-reached
        for _ in range(tries):
            train_step(s, real)


if __name__ == "__main__":
    torch.manual_seed(45)
    state = make_state()
    for i in range(28):
        g, d = train_step(state, torch.randn(32, 4).cumsum(dim=1))
        if i % 7 == 0:
            print(f"{i}: gen {g:.4f} disc {d:.4f}")
