"""Transfer learning: a siamese metric head on top of a backbone that stays as it is."""
from collections import defaultdict

import torch
from torch import nn


class MetricHead(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(dim, 24), nn.ReLU(), nn.Linear(24, 8))

    def forward(self, features):
        return nn.functional.normalize(self.net(features), dim=1)


class TransferTrainer:
    def __init__(self, backbone, head):
        self.backbone, self.head = backbone.eval(), head
        self.optimizer = torch.optim.Adam(head.parameters(), lr=1e-3)
        self.history = defaultdict(list)

    def features(self, x):
        with torch.no_grad():  # verify: training-under-no-grad refuted
            return self.backbone(x)

    def train_step(self, anchor, positive, negative):
        a, p, n = (self.head(self.features(t)) for t in (anchor, positive, negative))
        loss = nn.functional.softplus((a - p).norm(dim=1) - (a - n).norm(dim=1)).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.history["loss"].append(loss.item())

    @torch.no_grad()
    def embed_all(self, batches):
        self.head.eval()
        embeddings = []
        for x in batches:
            embeddings.append(self.head(self.features(x)))  # verify: undetached-accumulation refuted
        self.head.train()
        return torch.cat(embeddings)

    def fit(self, epochs, steps):
        for epoch in range(epochs):
            for _ in range(steps):
                anchor = torch.randn(24, 1, 16)
                self.train_step(anchor, anchor + 0.1 * torch.randn_like(anchor), torch.randn(24, 1, 16))
            table = self.embed_all([torch.randn(24, 1, 16) for _ in range(10)])
            print(f"epoch {epoch}: {sum(self.history['loss'][-steps:]) / steps:.4f}, spread {table.std().item():.4f}")


if __name__ == "__main__":
    torch.manual_seed(54)
    backbone = nn.Sequential(nn.Conv1d(1, 8, 3, padding=1), nn.BatchNorm1d(8), nn.ReLU(), nn.Flatten())
    TransferTrainer(backbone, MetricHead(128)).fit(epochs=2, steps=12)
