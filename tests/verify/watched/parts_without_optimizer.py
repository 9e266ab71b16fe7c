"""Two networks of which the optimizer has one; and a fixed one that measures."""

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)


def train(body, head, optimizer, measure=None):
    for _ in range(15):
        x = torch.randn(8, 4)
        loss = F.mse_loss(head(body(x)), x[:, :2])
        if measure is not None:
            loss = loss + measure(head(body(x))).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


body, head = nn.Sequential(nn.Linear(4, 8), nn.Tanh()), nn.Linear(8, 2)
optimizer = torch.optim.SGD(head.parameters(), lr=0.01)  # seen: parameter-without-optimizer (`Sequential`)
train(body, head, optimizer)
body, head = nn.Sequential(nn.Linear(4, 8), nn.Tanh()), nn.Linear(8, 2)
both = torch.optim.SGD([*body.parameters(), *head.parameters()], lr=0.01)
train(body, head, both, nn.Linear(2, 3).eval())
