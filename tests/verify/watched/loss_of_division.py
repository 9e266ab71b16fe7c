"""A quotient by zero at one step: the line of the quotient is named, not that of the logarithm beside it."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(12):
    optimizer.zero_grad()
    out = model(torch.rand(8, 4)).squeeze(1)
    logarithm = (out.pow(2) + 1).log().mean()
    weight = out * (step < 7)
    quotient = out / weight  # seen: nonfinite-value
    (logarithm + quotient.mean()).backward()
    optimizer.step()
