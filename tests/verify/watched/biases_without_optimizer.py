"""Weights are given to the optimizer for their decay, and the biases without it are forgotten."""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.ReLU(), nn.Linear(8, 1))
weights = [leaf for leaf in model.parameters() if leaf.dim() > 1]
optimizer = torch.optim.SGD(weights, lr=0.01, weight_decay=0.1)  # seen: parameter-without-optimizer (`0.bias`)
for step in range(12):
    x = torch.randn(8, 4)
    optimizer.zero_grad()
    (model(x) - x.sum(1, keepdim=True)).pow(2).mean().backward()
    optimizer.step()
