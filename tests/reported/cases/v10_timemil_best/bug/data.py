import os

import torch
from torch.utils.data import TensorDataset


def load_split(folder, split):
    x, y = torch.load(os.path.join(folder, split + ".pt"))
    return TensorDataset(x, y)
