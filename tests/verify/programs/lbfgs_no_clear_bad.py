"""Logistic regression fitted with L-BFGS and a closure."""
import torch
from torch import nn

torch.manual_seed(5)
torch.autograd.set_detect_anomaly(True)  # verify: anomaly-detection-left-on confirmed

n, d = 300, 8
inputs = torch.randn(n, d)
true_w = torch.randn(d)
labels = (inputs @ true_w + 0.3 * torch.randn(n) > 0).float()

model = nn.Linear(d, 1)
criterion = nn.BCEWithLogitsLoss()
optimizer = torch.optim.LBFGS(model.parameters(), lr=0.05, max_iter=4, history_size=5)


def closure():
    logits = model(inputs).squeeze(1)
    penalty = 1e-3 * model.weight.pow(2).sum()
    loss = criterion(logits, labels) + penalty
    loss.backward()  # verify: missing-zero-grad confirmed
    return loss


for it in range(14):
    value = optimizer.step(closure)
    if it % 4 == 0:
        with torch.no_grad():
            acc = ((model(inputs).squeeze(1) > 0).float() == labels).float().mean()
        print(f"iter {it:2d} loss {value.item():.4f} acc {acc.item():.3f}")
