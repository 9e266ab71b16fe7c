"""Regression with a NaN hunt left in, and an evaluation that collects all predictions."""
import torch
from torch import nn

torch.manual_seed(33)
torch.autograd.set_detect_anomaly(True)  # verify: anomaly-detection-left-on confirmed


def collect(model, batches):
    model.eval()
    predictions, targets = [], []
    for x, y in batches:
        predictions.append(model(x))  # verify: undetached-accumulation confirmed
        targets.append(y)
    return torch.cat(predictions), torch.cat(targets)


def r2(pred, target):
    residual = (pred - target).pow(2).sum()
    return (1 - residual / (target - target.mean()).pow(2).sum()).item()


def make(n):
    out = []
    for _ in range(n):
        x = torch.rand(20, 3)
        out.append((x, torch.log(x + 0.1).sum(dim=1, keepdim=True)))
    return out


train_set, test_set = make(14), make(12)
model = nn.Sequential(nn.Linear(3, 24), nn.LayerNorm(24), nn.GELU(), nn.Linear(24, 1))
optimizer = torch.optim.Adamax(model.parameters(), lr=5e-3)

for epoch in range(3):
    model.train()
    for x, y in train_set:
        optimizer.zero_grad()
        nn.functional.huber_loss(model(x), y).backward()
        optimizer.step()
    print(f"epoch {epoch}: R2 = {r2(*collect(model, test_set)):.4f}")
