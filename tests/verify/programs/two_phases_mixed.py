"""Warm-up and fine-tuning with one optimizer; the second loop has lost its zero_grad."""
import torch
from torch import nn


def batches(count):
    for _ in range(count):
        x = torch.randn(16, 6)
        yield x, x.sum(dim=1, keepdim=True).tanh()


def main():
    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(6, 24), nn.Tanh(), nn.Linear(24, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    warm = fine = 0.0
    for x, y in batches(15):
        optimizer.zero_grad()
        loss = (model(x) - y).pow(2).mean()
        loss.backward()  # verify: missing-zero-grad refuted
        optimizer.step()
        warm += loss.detach()  # verify: undetached-accumulation refuted
    for x, y in batches(20):
        loss = (model(x) - y).abs().mean()
        loss.backward()  # verify: missing-zero-grad confirmed
        optimizer.step()
        fine += loss  # verify: undetached-accumulation confirmed
    print(f"{warm / 15:.4f} {fine / 20:.4f}")


if __name__ == "__main__":
    main()
