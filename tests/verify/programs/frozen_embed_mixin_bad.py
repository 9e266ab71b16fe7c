"""Contrastive pre-training where a mixin provides the embedding helper."""
import torch
from torch import nn


class EmbedMixin:
    @torch.no_grad()  # verify: training-under-no-grad confirmed, unseen by the linter
    def embed(self, x):
        z = self.encoder(x)  # verify: training-under-no-grad confirmed
        return z / z.norm(dim=1, keepdim=True).clamp_min(1e-6)


class Evaluator:
    @torch.no_grad()
    def alignment(self, a, b):
        return (self.head(self.embed(a)) * self.head(self.embed(b))).sum(1).mean().item()


class SimNet(EmbedMixin, Evaluator, nn.Module):
    def __init__(self, d_in=9, d=16):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(d_in, 32), nn.ReLU(), nn.Linear(32, d))
        self.head = nn.Linear(d, d)

    def forward(self, a, b):
        return self.head(self.embed(a)) @ self.head(self.embed(b)).T


def views(n):
    x = torch.randn(n, 9)
    return x + 0.1 * torch.randn_like(x), x + 0.1 * torch.randn_like(x)


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.manual_seed(77)
    net = SimNet()
    opt = torch.optim.AdamW(
        [{"params": net.encoder.parameters(), "lr": 1e-3}, {"params": net.head.parameters(), "lr": 3e-3}]
    )
    labels = torch.arange(16)
    for step in range(20):
        a, b = views(16)
        loss = nn.functional.cross_entropy(net(a, b) / 0.2, labels)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 5 == 4:
            print(step, round(loss.item(), 3), round(net.alignment(*views(16)), 3))
