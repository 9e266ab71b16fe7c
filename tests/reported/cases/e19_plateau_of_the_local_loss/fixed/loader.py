import torch
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler


class EceiDataset(Dataset):
    def __init__(self, shots=48, channels=4, length=40):
        generator = torch.Generator().manual_seed(4)
        self.target = (torch.arange(shots) % 2).float()
        self.data = torch.randn(shots, channels, length, generator=generator)
        self.data[:, 0, -10:] += 1.5 * self.target[:, None]

    def __len__(self):
        return len(self.target)

    def __getitem__(self, index):
        return self.data[index], self.target[index], index


def data_generator(dataset, batch_size, num_workers=0):
    sampler = DistributedSampler(dataset, shuffle=True)
    return DataLoader(dataset, batch_size=batch_size, sampler=sampler, num_workers=num_workers)
