import torch
from torch import nn

from data import CallDataset, get_dataloader


class Detector(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(4))
        self.classifier = nn.Linear(4 * 16, 2)

    def forward(self, x):
        return self.classifier(self.features(x).flatten(1))


class Trainer:
    def __init__(self, model, train_loader, val_loader):
        self.model, self.train_loader, self.val_loader = model, train_loader, val_loader
        self.criterion = nn.CrossEntropyLoss()
        self.optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
        self.drawn = set()

    def train_epoch(self):
        self.model.train()
        for segments, labels, indices in self.train_loader:
            self.drawn.update(indices.tolist())
            loss = self.criterion(self.model(segments), labels)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()

    @torch.no_grad()
    def evaluate(self):
        self.model.eval()
        outputs = [(self.model(x).argmax(1), y) for x, y, _ in self.val_loader]
        predicted, labels = (torch.cat(part) for part in zip(*outputs))
        return [(predicted[labels == c] == c).float().mean().item() for c in (0, 1)]


def main():
    torch.manual_seed(0)
    trainer = Trainer(Detector(), *(get_dataloader(CallDataset(mode), 50) for mode in ("train", "val")))
    for epoch in range(4):
        trainer.train_epoch()
    specificity, recall = trainer.evaluate()
    print(f"different samples drawn {len(trainer.drawn)}; recall {recall:.3f}, specificity {specificity:.3f}")


if __name__ == "__main__":
    main()
