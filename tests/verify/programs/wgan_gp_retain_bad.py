"""Wasserstein GAN with gradient penalty on one dimensional data."""
import torch
from torch import nn, optim

torch.manual_seed(13)
torch.autograd.set_detect_anomaly(True)  # verify: anomaly-detection-left-on confirmed

G = nn.Sequential(nn.Linear(3, 20), nn.Softplus(), nn.Linear(20, 1))
C = nn.Sequential(nn.Linear(1, 20), nn.Softplus(), nn.Linear(20, 1))
g_optim = optim.Adam(G.parameters(), lr=1e-3, betas=(0.0, 0.9))
c_optim = optim.Adam(C.parameters(), lr=1e-3, betas=(0.0, 0.9))


def gradient_penalty(critic, real, fake, weight=10.0):
    eps = torch.rand(real.size(0), 1)
    mixed = (eps * real + (1 - eps) * fake).requires_grad_(True)
    score = critic(mixed)
    grad, = torch.autograd.grad(score, mixed, torch.ones_like(score), create_graph=True)
    return weight * ((grad.norm(2, dim=1) - 1) ** 2).mean()


for it in range(12):
    for _ in range(2):
        real = 2.0 + 0.5 * torch.randn(32, 1)
        fake = G(torch.randn(32, 3)).detach()
        c_loss = C(fake).mean() - C(real).mean() + gradient_penalty(C, real, fake)
        c_optim.zero_grad()
        c_loss.backward(retain_graph=True)  # verify: retain-graph-in-loop confirmed
        c_optim.step()
    g_optim.zero_grad()
    g_loss = -C(G(torch.randn(32, 3))).mean()
    g_loss.backward()
    g_optim.step()
    if it % 4 == 0:
        print(f"{it} critic {c_loss.item():.3f} generator {g_loss.item():.3f}")
