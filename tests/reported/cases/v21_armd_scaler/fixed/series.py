import numpy as np
import pandas as pd
import torch
from sklearn.preprocessing import StandardScaler
from torch.utils.data import DataLoader, Dataset


class CustomDataset(Dataset):
    def __init__(self, name, data_root, window=64, proportion=0.8, period="train"):
        self.window = window
        self.period = period
        self.rawdata, self.scaler = self.read_data(data_root, proportion)
        self.data = self.__normalize(self.rawdata)
        train, inference = self.__getsamples(self.data, proportion)
        self.samples = train if period == "train" else inference

    @staticmethod
    def read_data(filepath, proportion):
        df = pd.read_csv(filepath, header=0)
        data = df.values[:, 1:].astype(np.float64)
        scaler = StandardScaler()
        scaler = scaler.fit(data[: int(len(data) * proportion)])
        return data, scaler

    def __normalize(self, rawdata):
        return self.scaler.transform(rawdata)

    def __getsamples(self, data, proportion):
        x = np.stack([data[i : i + self.window] for i in range(len(data) - self.window + 1)])
        cut = int(np.ceil(len(x) * proportion))
        return x[:cut], x[cut:]

    def __getitem__(self, ind):
        return torch.from_numpy(self.samples[ind]).float()

    def __len__(self):
        return len(self.samples)


def loaders(path):
    train = CustomDataset("etth", path, period="train")
    test = CustomDataset("etth", path, period="test")
    return DataLoader(train, batch_size=64, shuffle=True), DataLoader(test, batch_size=64)
