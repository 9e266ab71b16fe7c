"""Toy 2-D GAN on a ring of Gaussians; the fake batch is shared between both updates."""
import math

import torch
import torch.nn as nn

torch.set_num_threads(1)
torch.manual_seed(17)


def mlp(i, o):
    return nn.Sequential(nn.Linear(i, 32), nn.LeakyReLU(0.2), nn.Linear(32, o))


def ring(n):
    a = 2 * math.pi * torch.randint(0, 8, (n,)) / 8
    return torch.stack([a.cos(), a.sin()], 1) + 0.05 * torch.randn(n, 2)


G, D = mlp(4, 2), mlp(2, 1)
g_opt = torch.optim.Adam(G.parameters(), 1e-3, betas=(0.5, 0.99))
d_opt = torch.optim.Adam(D.parameters(), 1e-3, betas=(0.5, 0.99))
bce = nn.BCEWithLogitsLoss()
ones, zeros = torch.ones(32, 1), torch.zeros(32, 1)

for it in range(18):
    fake = G(torch.randn(32, 4))

    d_opt.zero_grad()
    d_loss = bce(D(ring(32)), ones) + bce(D(fake), zeros)
    d_loss.backward(retain_graph=True)  # verify: retain-graph-in-loop refuted
    d_opt.step()

    g_opt.zero_grad()
    g_loss = bce(D(fake), ones)
    g_loss.backward(retain_graph=True)  # verify: retain-graph-in-loop confirmed
    g_opt.step()

    if it % 6 == 0:
        print(f"{it:3d} d={d_loss.item():.3f} g={g_loss.item():.3f}")
