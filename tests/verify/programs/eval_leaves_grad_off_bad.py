"""A loop of training and evaluation epochs, with the grad mode switched by hand."""
import sys

import torch
from torch import nn


def evaluate(model, x, y):
    torch.set_grad_enabled(False)  # verify: training-under-no-grad confirmed, unseen by the linter
    model.eval()
    hits = (model(x).argmax(dim=1) == y).sum().item()
    return hits / len(y)


def train_epoch(model, optimizer, x, y):
    model.train()
    for xb, yb in zip(x.chunk(12), y.chunk(12)):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(xb), yb)
        loss.backward()  # verify: training-under-no-grad confirmed
        optimizer.step()
    return loss.item()


def main():
    torch.manual_seed(30)
    centres = 2 * torch.randn(3, 6)
    labels = torch.randint(0, 3, (240,))
    points = centres[labels] + torch.randn(240, 6)
    model = nn.Sequential(nn.Linear(6, 24), nn.BatchNorm1d(24), nn.ReLU(), nn.Linear(24, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, weight_decay=1e-4)
    for epoch in range(5):
        try:
            last = train_epoch(model, optimizer, points[:180], labels[:180])
        except RuntimeError as error:
            print(f"epoch {epoch} failed: {error}")
            return 0
        print(f"epoch {epoch}: loss {last:.4f}, accuracy {evaluate(model, points[180:], labels[180:]):.3f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
