import os

import pandas
import torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset
from torchvision import transforms

SPLITS = {"train": 0, "valid": 1, "test": 2}


class Faces(Dataset):
    def __init__(self, root, split="train", transform=None):
        self.root = root
        self.transform = transform
        part = SPLITS[split]
        splits = pandas.read_csv(os.path.join(root, "partition.txt"), sep=" ", header=None, index_col=0)
        attr = pandas.read_csv(os.path.join(root, "attr.txt"), sep=" ", header=1)
        mask = splits[1] == part
        self.filename = splits.index.values
        self.attr = torch.as_tensor(attr[mask].values)
        self.attr = (self.attr + 1) // 2

    def __getitem__(self, index):
        image = Image.open(os.path.join(self.root, "img", self.filename[index]))
        if self.transform is not None:
            image = self.transform(image)
        return image, self.attr[index].float()

    def __len__(self):
        return len(self.attr)


def train(model, root, epochs=5):
    data = Faces(root, "valid", transforms.ToTensor())
    loader = DataLoader(data, batch_size=32, shuffle=True)
    criterion = torch.nn.BCEWithLogitsLoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for _ in range(epochs):
        for images, attrs in loader:
            optimizer.zero_grad()
            loss = criterion(model(images), attrs)
            loss.backward()
            optimizer.step()
