"""Values that are not finite, in a loss and in a gradient; and infinities on the way that do no harm."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(14):
    optimizer.zero_grad()
    out = model(torch.randn(8, 4))
    masked = out.masked_fill(torch.eye(8, 3).bool(), float("-inf")).softmax(1)
    distance = ((out - out.roll(1, 0)) * (step != 9)).pow(2).sum(1)
    length = distance.sqrt()  # seen: nonfinite-value
    loss = length.mean() + masked.max() * 0.1
    loss.backward()
    optimizer.step()
