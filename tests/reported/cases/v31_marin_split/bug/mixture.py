import torch
from torch.utils.data import DataLoader, Subset


class Mixture:
    def __init__(self, dataset, num_validation, seed=0):
        self.dataset = dataset
        self.num_validation = num_validation
        self.seed = seed

    def permutation(self):
        generator = torch.Generator().manual_seed(self.seed)
        return torch.randperm(len(self.dataset), generator=generator).tolist()

    def train_set(self):
        order = self.permutation()
        return Subset(self.dataset, order[self.num_validation :])

    def validation_set(self):
        return Subset(self.dataset, range(self.num_validation))


def train(model, dataset, epochs=3):
    mixture = Mixture(dataset, 1000)
    train_loader = DataLoader(mixture.train_set(), batch_size=32, shuffle=True)
    val_loader = DataLoader(mixture.validation_set(), batch_size=32)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    for epoch in range(epochs):
        model.train()
        for tokens, target in train_loader:
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(tokens), target)
            loss.backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            total = sum(torch.nn.functional.cross_entropy(model(t), y).item() for t, y in val_loader)
        print(epoch, total / len(val_loader))
