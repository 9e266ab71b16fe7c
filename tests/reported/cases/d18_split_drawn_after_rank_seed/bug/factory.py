from dataclasses import dataclass

import torch
from torch.utils.data import Dataset, random_split


@dataclass
class Config:
    seed: int = 1000
    val_ratio: float = 0.2
    batch_size: int = 16
    steps: int = 60
    augment: float = 0.05


class Frames(Dataset):
    def __init__(self, count):
        generator = torch.Generator().manual_seed(55)
        self.states = torch.randn(count, 8, generator=generator)
        self.actions = torch.randn(count, 2, generator=generator)

    def __len__(self):
        return len(self.states)

    def __getitem__(self, index):
        return self.states[index], self.actions[index], index


def make_dataset(cfg):
    dataset = Frames(200)
    val_size = int(cfg.val_ratio * len(dataset))
    train, val = random_split(dataset, [len(dataset) - val_size, val_size])
    return train, val
