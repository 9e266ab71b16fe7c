import os
import tempfile

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from trainer import BaseTrainer

CONFIG = {"lr": 3e-3, "weight_decay": 5e-4, "epochs": 6}


def build_model():
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.SiLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(256, 5)
    )


def build_loader():
    g = torch.Generator().manual_seed(0)
    images = torch.randn(160, 3, 16, 16, generator=g)
    targets = images[:, :, :8].mean((1, 2, 3)).mul(80).add(2.5).clamp(0, 4.99).long()
    return DataLoader(TensorDataset(images, targets), batch_size=16, shuffle=True)


def main():
    torch.manual_seed(0)
    config = dict(CONFIG, checkpoint=os.path.join(tempfile.mkdtemp(), "last.pt"))

    trainer = BaseTrainer(build_model(), build_loader(), config)
    trainer.train(stop_after=3)  # the job is stopped here

    trainer = BaseTrainer(build_model(), build_loader(), config)
    trainer.resume(config["checkpoint"])
    trainer.train()
    return trainer


if __name__ == "__main__":
    main()
