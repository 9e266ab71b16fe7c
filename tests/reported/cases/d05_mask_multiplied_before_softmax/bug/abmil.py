import torch
from torch import nn


class GatedAttention(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.v = nn.Sequential(nn.Linear(width, hidden), nn.Tanh())
        self.u = nn.Sequential(nn.Linear(width, hidden), nn.Sigmoid())
        self.w = nn.Linear(hidden, 1)

    def forward(self, h):
        return self.w(self.v(h) * self.u(h))


class BagClassifier(nn.Module):
    def __init__(self, features, width=32, hidden=16, classes=2):
        super().__init__()
        self.embed = nn.Sequential(nn.Linear(features, width), nn.ReLU())
        self.attention = GatedAttention(width, hidden)
        self.classifier = nn.Linear(width, classes)

    def pool(self, h, mask):
        scores = self.attention(h)
        scores = scores * mask.unsqueeze(-1)
        weights = torch.softmax(scores, dim=1)
        return (weights * h).sum(dim=1), weights.squeeze(-1)

    def forward(self, bags, mask):
        h = self.embed(bags)
        pooled, weights = self.pool(h, mask)
        return self.classifier(pooled), weights
