import numpy as np
import torch
from torch.utils.data import Dataset


class Scenes(Dataset):
    def __init__(self, items, size, flip_image_prob=0.5):
        self.items = items
        self.size = size
        self.flip_image_prob = flip_image_prob

    def __len__(self):
        return len(self.items)

    def load(self, index):
        item = self.items[index]
        return np.load(item["image"]), item["K"].copy(), np.load(item["points"])

    def __getitem__(self, index):
        img, K, points = self.load(index)
        scale_w = self.size[1]
        if np.random.random() < self.flip_image_prob:
            np.fliplr(img)
            K[0, 2] = scale_w - K[0, 2]
        img = torch.from_numpy(np.ascontiguousarray(img)).permute(2, 0, 1).float() / 255
        return img, torch.from_numpy(K), torch.from_numpy(points)


def train(model, data, epochs=3):
    loader = torch.utils.data.DataLoader(data, batch_size=8, shuffle=True, num_workers=4)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for _ in range(epochs):
        for img, K, points in loader:
            optimizer.zero_grad()
            model(img, K, points).backward()
            optimizer.step()
