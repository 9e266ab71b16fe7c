"""Each worker of a loader seeds NumPy with one number: all of them give the same samples."""

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Noise(Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        return np.random.rand(4).astype("float32")


def seed(worker):
    np.random.seed(7)  # verify: worker-seeding confirmed


model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for x in DataLoader(Noise(), batch_size=4, num_workers=2, worker_init_fn=seed):
    optimizer.zero_grad()
    model(x).mean().backward()
    optimizer.step()
