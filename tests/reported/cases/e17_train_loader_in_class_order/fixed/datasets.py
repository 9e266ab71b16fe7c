import torch
from torch.utils.data import Dataset


class ImageNetDataset(Dataset):
    """Samples in the order of the class folders, as ImageFolder lists them."""

    def __init__(self, root, per_class, num_classes=6, dim=20):
        self.classes = [f"n{index:08d}" for index in range(num_classes)]
        centers = torch.randn(num_classes, dim, generator=torch.Generator().manual_seed(7))
        generator = torch.Generator().manual_seed(1 if root.endswith("train") else 2)
        self.samples = []
        for target in range(num_classes):
            for _ in range(per_class):
                self.samples.append((centers[target] + 1.5 * torch.randn(dim, generator=generator), target))

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, index):
        return self.samples[index]
