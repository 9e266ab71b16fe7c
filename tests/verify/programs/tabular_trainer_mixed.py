"""Tabular regression with a small Trainer class and a nested config object."""
from dataclasses import dataclass, field

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


@dataclass
class OptimConfig:
    lr: float = 1e-2
    weight_decay: float = 1e-4


@dataclass
class Config:
    epochs: int = 4
    batch_size: int = 16
    optim: OptimConfig = field(default_factory=OptimConfig)


class Meter:
    def __init__(self):
        self.total = torch.zeros(())
        self.n = 0


class State:
    def __init__(self):
        self.meter = Meter()


class Trainer:
    def __init__(self, cfg, model, loader):
        self.cfg, self.model, self.loader = cfg, model, loader
        self.opt = torch.optim.AdamW(model.parameters(), lr=cfg.optim.lr, weight_decay=cfg.optim.weight_decay)
        self.state = State()

    def training_step(self, batch):
        x, y = batch
        return nn.functional.mse_loss(self.model(x).squeeze(-1), y)

    def fit(self):
        for epoch in range(self.cfg.epochs):
            self.opt.zero_grad()
            for batch in self.loader:
                loss = self.training_step(batch)
                loss.backward()  # verify: missing-zero-grad confirmed
                self.opt.step()
                self.state.meter.total += loss.detach()  # verify: undetached-accumulation refuted
                self.state.meter.n += 1
            print(epoch, float(self.state.meter.total) / self.state.meter.n)


def main():
    torch.set_num_threads(1)
    torch.manual_seed(3)
    x = torch.randn(128, 6)
    y = x @ torch.randn(6) + 0.1 * torch.randn(128)
    cfg = Config()
    loader = DataLoader(TensorDataset(x, y), batch_size=cfg.batch_size, shuffle=True)
    model = nn.Sequential(nn.Linear(6, 32), nn.GELU(), nn.Linear(32, 1))
    Trainer(cfg, model, loader).fit()


if __name__ == "__main__":
    main()
