import torch
from augmentation import Augmentation, Corner
from torch.utils.data import Dataset


class Tracks(Dataset):
    def __init__(self, frames):
        self.frames = frames
        self.augment = Augmentation(4, True)

    def __len__(self):
        return len(self.frames)

    def __getitem__(self, index):
        image, box, mask = self.frames[index]
        image, box, mask = self.augment(image, Corner(*box), mask, 255)
        image = torch.as_tensor(image.copy()).permute(2, 0, 1).float()
        return image, torch.tensor(box, dtype=torch.float), torch.tensor(mask, dtype=torch.float)
