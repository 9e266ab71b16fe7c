import numpy as np
import torch
from torch.utils.data import Dataset

import arrays


class Images(Dataset):
    def __init__(self, path):
        self.images = np.load(path)

    def __getitem__(self, index):
        image = self.images[index]
        return torch.from_numpy(arrays.normalize(image, 127, 50))
