"""A gradient that is never finite: the scale falls at every step, because of one operator."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(4, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
scaler = torch.amp.GradScaler("cpu")
for _ in range(12):
    optimizer.zero_grad()
    out = model(torch.randn(8, 4))
    spread = (out * 0).pow(2).sum(1).sqrt()  # seen: loss-scale-collapse (`SqrtBackward0`)
    scaler.scale(out.pow(2).mean() + spread.mean()).backward()
    scaler.step(optimizer)
    scaler.update()
