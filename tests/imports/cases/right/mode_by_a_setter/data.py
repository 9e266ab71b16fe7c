import torch
from torch.utils.data import DataLoader, TensorDataset


def make_loader(n=16):
    return DataLoader(TensorDataset(torch.randn(n, 8), torch.randint(0, 3, (n,))), batch_size=4)
