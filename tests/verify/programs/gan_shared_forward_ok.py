"""A GAN that shares one forward pass of the fakes; both backward passes run before the steps."""
import torch
from torch import nn


class Pair(nn.Module):
    def __init__(self, noise=6, data=2, width=32):
        super().__init__()
        self.noise = noise
        self.generator = nn.Sequential(nn.Linear(noise, width), nn.ReLU(), nn.Linear(width, data))
        self.discriminator = nn.Sequential(nn.Linear(data, width), nn.ReLU(), nn.Linear(width, 1))


def train(pair, steps=26):
    g_params, d_params = list(pair.generator.parameters()), list(pair.discriminator.parameters())
    opt_g = torch.optim.Adam(g_params, lr=1e-3)
    opt_d = torch.optim.Adam(d_params, lr=1e-3)
    bce = nn.BCEWithLogitsLoss()
    for it in range(steps):
        real = torch.randn(32, 2) @ torch.tensor([[1.0, 0.8], [0.0, 0.3]])
        fake = pair.generator(torch.randn(32, pair.noise))
        on_real, on_fake = pair.discriminator(real), pair.discriminator(fake)
        d_loss = bce(on_real, torch.ones(32, 1)) + bce(on_fake, torch.zeros(32, 1))
        g_loss = bce(on_fake, torch.ones(32, 1))

        opt_d.zero_grad()
        opt_g.zero_grad()
        d_loss.backward(retain_graph=True, inputs=d_params)  # verify: retain-graph-in-loop refuted
        g_loss.backward(inputs=g_params)
        opt_d.step()  # verify: inplace-on-saved-tensor refuted
        opt_g.step()
        if it % 6 == 0:
            print(f"{it:2d} d {d_loss.item():.4f} g {g_loss.item():.4f}")


if __name__ == "__main__":
    torch.manual_seed(59)
    train(Pair())
