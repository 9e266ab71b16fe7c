"""Gradient accumulation over micro-batches with a flush at the end of every epoch."""
import torch
from torch import nn


def micro_batches(count, size=8):
    for _ in range(count):
        x = torch.randn(size, 5)
        yield x, (x.sum(dim=1) > 0).long()


def train(model, optimizer, epochs=4, accumulate=4, per_epoch=16):
    for epoch in range(epochs):
        optimizer.zero_grad()
        seen, total = 0, 0.0
        for i, (x, y) in enumerate(micro_batches(per_epoch)):
            loss = nn.functional.cross_entropy(model(x), y) / accumulate
            loss.backward()  # verify: missing-zero-grad refuted
            total += loss.item() * accumulate
            seen += 1
            if (i + 1) % accumulate == 0:
                optimizer.step()
                optimizer.zero_grad()
        # whatever is left over
        optimizer.step()  # verify: step-without-backward confirmed, unseen by the linter
        print(f"epoch {epoch}: {total / seen:.4f}")


torch.manual_seed(26)
net = nn.Sequential(nn.Linear(5, 16), nn.Dropout(0.1), nn.ReLU(), nn.Linear(16, 2))
train(net, torch.optim.RAdam(net.parameters(), lr=5e-3))
