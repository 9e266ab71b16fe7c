import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from validator import ModuleValidator


class SampleConvNet(nn.Module):
    def __init__(self, num_classes=4):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1),
            nn.BatchNorm2d(16),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1),
            nn.BatchNorm2d(32),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(2),
        )
        self.classifier = nn.Linear(128, num_classes)

    def forward(self, x):
        return self.classifier(self.features(x).flatten(1))


def make_data(n=256):
    g = torch.Generator().manual_seed(0)
    labels = torch.randint(0, 4, (n,), generator=g)
    images = 0.5 * torch.randn(n, 1, 12, 12, generator=g)
    for i, c in enumerate(labels.tolist()):
        images[i, 0, 6 * (c // 2) : 6 * (c // 2) + 6, 6 * (c % 2) : 6 * (c % 2) + 6] += 1.0
    return TensorDataset(images, labels)


def train_epoch(model, loader, criterion, optimizer):
    model.train()
    losses = []
    for images, target in loader:
        optimizer.zero_grad()
        loss = criterion(model(images), target)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    return sum(losses) / len(losses)


@torch.no_grad()
def test(model, loader):
    model.eval()
    hits = sum((model(x).argmax(1) == y).sum().item() for x, y in loader)
    return hits / len(loader.dataset)


def main(epochs=6, lr=0.2):
    torch.manual_seed(1)
    loader = DataLoader(make_data(), batch_size=32, shuffle=True)
    model = SampleConvNet()
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)

    if not ModuleValidator.is_valid(model):
        model = ModuleValidator.fix(model)

    criterion = nn.CrossEntropyLoss()
    for epoch in range(1, epochs + 1):
        loss = train_epoch(model, loader, criterion, optimizer)
        accuracy = test(model, loader)
        print(f"epoch {epoch} loss {loss:.4f} accuracy {accuracy:.3f}")
    return model, accuracy


if __name__ == "__main__":
    main()
