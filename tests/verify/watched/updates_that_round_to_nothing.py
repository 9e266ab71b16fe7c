"""Updates that are too small for weights of 16 bits, and the same ones for weights of 32."""

import torch
from torch import nn

torch.manual_seed(0)


def train(kind):
    model = nn.Linear(4, 1)
    nn.init.ones_(model.weight)
    model = model.to(kind)
    if kind == torch.bfloat16:
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)  # seen: parameter-never-moves
    else:
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    for _ in range(12):
        optimizer.zero_grad()
        (model(torch.randn(8, 4).to(kind)) - 1).pow(2).mean().backward()
        optimizer.step()


train(torch.bfloat16)
train(torch.float32)
