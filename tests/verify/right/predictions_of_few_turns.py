"""Predictions that compare a few scores, with their graphs: a call keeps no more of them than the loop has turns."""

import torch
from torch import nn


class Scores(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(8, 16), nn.Linear(16, 16)])

    def score(self, x):
        total = 0
        for layer in self.layers:
            x = layer(x).relu()
            total = total + x.pow(2).mean(dim=1)
        return total

    def predict(self, x):
        scores = []
        for label in range(10):
            given = x.clone()
            given[:, 0] = label
            scores += [self.score(given).unsqueeze(1)]
        return torch.cat(scores, dim=1).argmax(dim=1)


torch.manual_seed(0)
model = Scores()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(12):
    x = torch.randn(16, 8)
    loss = nn.functional.softplus(1 - model.score(x)).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(model.predict(x).eq(1).float().mean().item())
print(model.predict(torch.randn(16, 8)).eq(1).float().mean().item())
