import torch
from torch.utils.data import DataLoader, Dataset


class TotalDataset(Dataset):
    """All patch data sets in one, with labels that stay apart."""

    def __init__(self, datasets):
        data = datasets[0][0]
        labels = datasets[0][1]
        for i in range(1, len(datasets)):
            data = torch.cat([data, datasets[i][0]])
            labels = torch.cat([labels, datasets[i][1] + torch.max(labels) + 1])
        self.data = data
        self.labels = labels

    def __getitem__(self, index):
        return self.data[index], self.labels[index]

    def __len__(self):
        return len(self.labels)


def train(model, datasets, criterion, epochs=3):
    loader = DataLoader(TotalDataset(datasets), batch_size=128, shuffle=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(epochs):
        for patches, labels in loader:
            optimizer.zero_grad()
            loss = criterion(model(patches), labels)
            loss.backward()
            optimizer.step()
