import torch
from torch.nn import functional as F


class Compose:
    def __init__(self, transforms):
        self.transforms = transforms

    def __call__(self, x):
        for transform in self.transforms:
            x = transform(x)
        return x


class RandomCrop:
    def __init__(self, size):
        self.size = size

    def __call__(self, x):
        top = torch.randint(0, x.shape[-2] - self.size + 1, (1,)).item()
        left = torch.randint(0, x.shape[-1] - self.size + 1, (1,)).item()
        return x[..., top:top + self.size, left:left + self.size]


class CenterCrop(RandomCrop):
    def __call__(self, x):
        top, left = (x.shape[-2] - self.size) // 2, (x.shape[-1] - self.size) // 2
        return x[..., top:top + self.size, left:left + self.size]


class RandomHorizontalFlip:
    def __init__(self, p=0.5):
        self.p = p

    def __call__(self, x):
        return x.flip(-1) if torch.rand(1).item() < self.p else x


class Resize:
    def __init__(self, size):
        self.size = size

    def __call__(self, x):
        return F.interpolate(x.unsqueeze(0), size=(self.size, self.size), mode="nearest").squeeze(0)
