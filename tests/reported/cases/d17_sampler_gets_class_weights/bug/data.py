import torch
from torch.utils.data import DataLoader, Dataset, WeightedRandomSampler


class CallDataset(Dataset):
    def __init__(self, mode, count=600, positives=60):
        generator = torch.Generator().manual_seed({"train": 31, "val": 32}[mode])
        self.mode = mode
        self.labels = (torch.arange(count) < positives).long()[torch.randperm(count, generator=generator)]
        self.segments = torch.randn(count, 1, 16, 16, generator=generator)
        self.segments[:, 0, 6:10] += 0.8 * self.labels[:, None, None]
        counts = torch.bincount(self.labels, minlength=2)
        self.class_weights = counts.sum() / (2.0 * counts)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        segment = self.segments[index]
        return (segment - segment.mean()) / segment.std(), self.labels[index], index


def get_dataloader(dataset, batch_size):
    if dataset.mode != "train":
        return DataLoader(dataset, batch_size=batch_size)
    sampler = WeightedRandomSampler(weights=dataset.class_weights, num_samples=len(dataset))
    return DataLoader(dataset, batch_size=batch_size, sampler=sampler)
