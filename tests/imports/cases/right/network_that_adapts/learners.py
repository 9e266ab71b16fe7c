"""A network that learns from the support set in each call of its `forward`."""

import torch
import torch.nn.functional as F
from torch import nn


class Learner(nn.Module):
    def __init__(self, ways):
        super().__init__()
        self.head = nn.Linear(16, ways)
        self.rate = nn.Parameter(torch.tensor(0.01))

    def forward(self, support, query, labels):
        loss = F.cross_entropy(self.head(support), labels)
        found = torch.autograd.grad(loss, self.head.parameters(), create_graph=True)
        weight, bias = (p - self.rate * g for p, g in zip(self.head.parameters(), found))
        return F.linear(query, weight, bias)
