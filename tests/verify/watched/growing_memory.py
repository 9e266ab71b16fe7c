"""Tensors without a graph that are kept step after step; and those that are kept for a reason."""

from collections import deque

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
data = TensorDataset(torch.randn(96, 8))
model = nn.Linear(8, 64)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)


class Log:
    def __init__(self):
        self.features = []

    def add(self, out):
        self.features.append(out.detach().clone())  # seen: memory-growth (held by `log.features[...]`)
        return self.features[-1].mean()


def collected_for_an_epoch(loader, log):
    outputs = []
    for (x,) in loader:
        optimizer.zero_grad()
        out = model(x)
        out.pow(2).mean().backward()
        optimizer.step()
        log.add(out)
        outputs.append(out.detach().cpu().clone())
        window.append(out.detach().clone())
        seen.append(out.detach().clone())
    return torch.cat(outputs).mean()


window, seen = deque(maxlen=4), []
log = Log()
loader = DataLoader(data, batch_size=8, shuffle=True)
for _ in range(3):
    collected_for_an_epoch(loader, log)
    torch.stack(seen).std()
