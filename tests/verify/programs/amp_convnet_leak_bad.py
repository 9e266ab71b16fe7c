"""Command line training of a small convolutional classifier with mixed precision."""
import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class SmallConvNet(nn.Module):
    def __init__(self, classes=4):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(8, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.AdaptiveAvgPool2d(1),
        )
        self.classifier = nn.Sequential(nn.Dropout(0.2), nn.Linear(16, classes))

    def forward(self, x):
        return self.classifier(self.features(x).flatten(1))


def parse_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=12)
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--free-cache", action="store_true")
    return parser.parse_args()


def main():
    args = parse_args()
    torch.manual_seed(1)
    data = TensorDataset(torch.randn(120, 1, 8, 8), torch.randint(0, 4, (120,)))
    loader = DataLoader(data, batch_size=args.batch_size, shuffle=True)
    model = SmallConvNet()
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, args.lr, total_steps=args.epochs * len(loader))
    scaler = torch.amp.GradScaler("cpu", init_scale=256.0)
    criterion = nn.CrossEntropyLoss()

    for epoch in range(args.epochs):
        model.train()
        epoch_loss = 0
        for images, labels in loader:
            with torch.autocast("cpu", dtype=torch.bfloat16):
                loss = criterion(model(images), labels)
            scaler.scale(loss).backward()  # verify: missing-zero-grad confirmed
            scaler.step(optimizer)
            scaler.update()
            scheduler.step()
            epoch_loss += loss  # verify: undetached-accumulation confirmed
            if args.free_cache:
                torch.cuda.empty_cache()  # verify: empty-cache-in-loop not-reached
        print(f"epoch {epoch} loss {float(epoch_loss) / len(loader):.4f}")


if __name__ == "__main__":
    main()
