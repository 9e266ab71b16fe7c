import numpy as np
import torch
from torch.utils.data import Dataset

import transforms

_MEAN = [125.3, 123.0, 113.9]
_SD = [63.0, 62.1, 66.7]


class Cifar10(Dataset):
    """CIFAR-10 dataset."""

    def __init__(self, split, im_size=12):
        assert split in ("train", "test")
        self._split = split
        self._im_size = im_size
        self._inputs, self._labels = self._load_data()

    def _load_data(self):
        rng = np.random.default_rng(0 if self._split == "train" else 1)
        labels = rng.integers(0, 4, 160)
        means = np.random.default_rng(7).uniform(90, 160, (4, 3, 1, 1))
        inputs = rng.normal(means[labels], 60.0, (160, 3, self._im_size, self._im_size))
        return inputs.clip(0, 255).astype(np.float32), labels

    def _prepare_im(self, im):
        im = transforms.color_norm(im, _MEAN, _SD)
        if self._split == "train":
            im = transforms.horizontal_flip(im=im, p=0.5)
            im = transforms.random_crop(im=im, size=self._im_size, pad_size=2)
        return im

    def __getitem__(self, index):
        im, label = self._inputs[index, ...], self._labels[index]
        im = self._prepare_im(im)
        return torch.from_numpy(im.copy()), int(label)

    def __len__(self):
        return self._inputs.shape[0]
