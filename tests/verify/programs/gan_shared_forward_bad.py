"""A GAN that reuses the discriminator's scores of the fakes for the generator's loss."""
import torch
from torch import nn

torch.manual_seed(8)

generator = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 2))
discriminator = nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 1), nn.Sigmoid())
opt_g = torch.optim.Adam(generator.parameters(), lr=2e-4)
opt_d = torch.optim.Adam(discriminator.parameters(), lr=2e-4)
bce = nn.BCELoss()

for it in range(20):
    real = torch.randn(32, 2) * torch.tensor([0.5, 1.5]) + 1.0
    fake = generator(torch.randn(32, 6))

    score_real = discriminator(real)
    score_fake = discriminator(fake)
    d_loss = bce(score_real, torch.ones_like(score_real)) + bce(score_fake, torch.zeros_like(score_fake))
    g_loss = bce(score_fake, torch.ones_like(score_fake))

    opt_d.zero_grad()
    d_loss.backward(retain_graph=True)
    opt_d.step()  # verify: inplace-on-saved-tensor confirmed

    opt_g.zero_grad()
    g_loss.backward()
    opt_g.step()

    if it % 5 == 0:
        print(it, d_loss.item(), g_loss.item())
