import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

from seedable import Seedable


class SignalDataset(Dataset, Seedable):
    def __init__(self, count, length, transforms, seed):
        Seedable.__init__(self, seed=seed)
        self.count = count
        self.length = length
        self.transforms = transforms
        for transform in transforms:
            self.adopt(transform)

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        label = int(self.rng.integers(4))
        signal = np.sin(2 * np.pi * (label + 1) * np.arange(self.length) / self.length)
        for transform in self.transforms:
            signal = transform(signal)
        return torch.as_tensor(signal, dtype=torch.float32), label


def make_loader(dataset, batch_size, num_workers):
    return DataLoader(dataset, batch_size=batch_size, num_workers=num_workers)
