import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from utils import AverageMeter, balanced_accuracy, compute_adjustment

CLASSES, FEATURES = 24, 16


def long_tailed(per_class, seed, imbalance=0.02):
    generator = torch.Generator().manual_seed(seed)
    centres = 0.8 * torch.randn(CLASSES, FEATURES, generator=torch.Generator().manual_seed(77))
    rows, labels = [], []
    for c in range(CLASSES):
        count = max(2, int(per_class * imbalance ** (c / (CLASSES - 1))))
        rows.append(centres[c] + torch.randn(count, FEATURES, generator=generator))
        labels.append(torch.full((count,), c))
    return TensorDataset(torch.cat(rows), torch.cat(labels))


def train(loader, model, criterion, optimizer, adjustments):
    model.train()
    losses = AverageMeter()
    for inputs, target in loader:
        output = model(inputs) + adjustments
        loss = criterion(output, target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.update(loss.item(), inputs.size(0))
    return losses.average


def main():
    torch.manual_seed(0)
    train_loader = DataLoader(long_tailed(400, seed=1), batch_size=64, shuffle=True)
    adjustments = compute_adjustment(train_loader, tau=1.0)
    model = nn.Sequential(nn.Linear(FEATURES, 64), nn.ReLU(), nn.Linear(64, CLASSES))
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for epoch in range(10):
        loss = train(train_loader, model, criterion, optimizer, adjustments)
    inputs, target = long_tailed(100, seed=2, imbalance=1.0).tensors
    with torch.no_grad():
        predicted = model.eval()(inputs).argmax(1)
    print(f"loss {loss:.3f}, balanced accuracy {balanced_accuracy(predicted, target, CLASSES):.3f}")


if __name__ == "__main__":
    main()
