import glob

import numpy as np
import torch
from torch.utils.data import Dataset


class EvUAV(Dataset):
    def __init__(self, cfg, mode):
        self.files = sorted(glob.glob(f"{cfg.root}/{mode}/*.npz"))

    def __len__(self):
        return len(self.files)

    def __getitem__(self, index):
        item = np.load(self.files[index])
        return torch.from_numpy(item["events"]).float(), int(item["label"])

    def custom_collate(self, batch):
        events = torch.stack([b[0] for b in batch])
        return events, torch.tensor([b[1] for b in batch])
