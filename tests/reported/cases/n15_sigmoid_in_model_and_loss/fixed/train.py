import torch
import torch.nn.functional as F

from model import TransformerBinaryClassifier


def criterion(logits, labels):
    loss_classify = F.binary_cross_entropy_with_logits(logits, labels, reduction="none")
    return torch.mean(loss_classify)


class Trainer:
    def __init__(self, config):
        self.config = config
        self.backbone = TransformerBinaryClassifier(config, 32)
        self.optimizer = torch.optim.Adam(self.backbone.parameters(), lr=1e-4)

    def epoch(self, loader):
        self.backbone.train()
        total = 0.0
        for raw, mask, labels in loader:
            self.optimizer.zero_grad()
            logits = self.backbone(raw, mask)
            loss = criterion(logits, labels)
            loss.backward()
            self.optimizer.step()
            total += loss.item()
        return total / len(loader)


def batches():
    return [(torch.randn(8, 10, 32), torch.ones(8, 10, dtype=torch.bool), torch.randint(0, 2, (8,)).float()) for _ in range(5)]


if __name__ == "__main__":
    trainer = Trainer({"heads": 4, "layers": 1})
    for _ in range(3):
        print(trainer.epoch(batches()))
