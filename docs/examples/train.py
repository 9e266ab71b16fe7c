import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def train(model, loader, epochs):
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    criterion = nn.CrossEntropyLoss()
    for epoch in range(epochs):
        total = 0
        for x, y in loader:
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
            total += loss
        print(epoch, total / len(loader))


def main():
    torch.manual_seed(0)
    x = torch.randn(4000, 20)
    y = (x[:, :10].sum(1) > 0).long()
    model = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 2))
    train(model, DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True), epochs=3)


if __name__ == "__main__":
    main()
