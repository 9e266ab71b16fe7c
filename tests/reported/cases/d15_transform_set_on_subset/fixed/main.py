import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader

from datasets import RandomShift, get_datasets


def evaluate(model, loader):
    model.eval()
    correct = 0
    with torch.no_grad():
        for x, y in loader:
            correct += (model(x).argmax(1) == y).sum().item()
    return correct / len(loader.dataset)


def main():
    torch.manual_seed(0)
    augmentation = RandomShift(1)
    train_set, val_set, test_set = get_datasets(0.2, augmentation)
    train_loader = DataLoader(train_set, batch_size=32, shuffle=True)
    val_loader = DataLoader(val_set, batch_size=64)
    model = nn.Sequential(nn.Flatten(), nn.Linear(144, 32), nn.ReLU(), nn.Linear(32, 4))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(5):
        model.train()
        for x, y in train_loader:
            loss = F.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        accuracy = evaluate(model, val_loader)
    test = evaluate(model, DataLoader(test_set, batch_size=64))
    print(f"augmented samples {augmentation.calls} of {5 * len(train_set)} drawn; validation {accuracy:.3f}, test {test:.3f}")


if __name__ == "__main__":
    main()
