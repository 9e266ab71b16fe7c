"""A program that replaces functions of torch with its own; each runs once in a call."""

import torch
from torch import nn
from torch.nn import functional as F

cross_entropy, normalize, norm = F.cross_entropy, F.normalize, torch.Tensor.norm
calls = {"loss": 0, "normalize": 0, "norm": 0}


def smoothed(scores, targets, **options):
    calls["loss"] += 1
    return cross_entropy(scores, targets, label_smoothing=0.1, **options)


def counted(*arguments, **options):
    calls["normalize"] += 1
    return normalize(*arguments, **options)


def doubled(tensor, *arguments, **options):
    calls["norm"] += 1
    return 2 * norm(tensor, *arguments, **options)


F.cross_entropy, F.normalize, torch.Tensor.norm = smoothed, counted, doubled
torch.manual_seed(0)
model = nn.Linear(6, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for _ in range(12):
    x = torch.randn(16, 6)
    scores = F.normalize(model(x), dim=1)
    loss = F.cross_entropy(scores, x[:, :3].argmax(1)) + 0.01 * scores.norm()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
assert calls == {"loss": 12, "normalize": 12, "norm": 24}, calls  # `normalize` calls it too
