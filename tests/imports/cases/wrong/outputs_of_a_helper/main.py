import torch
from mirrored import probabilities
from torch import nn


def train(model, optimizer, loader):
    model.train()
    for images, mask in loader:
        optimizer.zero_grad()
        loss = nn.functional.binary_cross_entropy_with_logits(model(images), mask)
        loss.backward()
        optimizer.step()


def agreement(model, loader):
    model.eval()
    hits = 0
    for images, mask in loader:
        found = probabilities(model, images) > 0.5
        hits += (found == mask.bool()).sum().item()
    return hits


def main():
    torch.manual_seed(0)
    model = nn.Conv2d(1, 1, 3, padding=1)
    optimizer = torch.optim.Adam(model.parameters())
    loader = [(torch.randn(2, 1, 8, 8), (torch.rand(2, 1, 8, 8) > 0.5).float()) for _ in range(3)]
    for _ in range(3):
        train(model, optimizer, loader)
        print(agreement(model, loader))


if __name__ == "__main__":
    main()
