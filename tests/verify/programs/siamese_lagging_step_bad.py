"""A siamese network with a contrastive loss; the optimizer steps before the backward pass."""
import torch
from torch import nn


class Siamese(nn.Module):
    def __init__(self):
        super().__init__()
        self.tower = nn.Linear(14, 6, bias=False)

    def forward(self, left, right):
        return (self.tower(left) - self.tower(right)).pow(2).sum(dim=1)


def contrastive(dist, same, margin=1.0):
    push = torch.relu(margin - (dist + 1e-8).sqrt()).pow(2)
    return torch.where(same, dist, push).mean()


def pairs(n):
    left = torch.randn(n, 14)
    same = torch.rand(n) < 0.5
    right = torch.where(same.unsqueeze(1), left + 0.1 * torch.randn(n, 14), torch.randn(n, 14))
    return left, right, same


torch.manual_seed(27)
model = Siamese()
optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
epoch_means = []
for epoch in range(3):
    total = 0.0
    for step in range(10):
        left, right, same = pairs(32)
        loss = contrastive(model(left, right), same)
        optimizer.step()  # verify: step-without-backward confirmed
        optimizer.zero_grad()
        loss.backward()
        total += loss.item()
    epoch_means.append(total / 10)
print([round(m, 4) for m in epoch_means])
