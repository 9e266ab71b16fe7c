"""Optimizers that are made again or hold old tensors, and settings that contradict each other."""

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
torch.backends.cudnn.deterministic = True
torch.backends.cudnn.benchmark = True  # verify: benchmark-with-deterministic confirmed, unseen by the linter
net = nn.Linear(4, 1)


def epoch(model):
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)  # verify: rebuilt-optimizer confirmed
    for x in torch.randn(4, 8, 4):
        optimizer.zero_grad()
        F.mse_loss(model(x), x[:, :1]).backward()
        optimizer.step()


def fit_an_image(target):
    image = torch.rand(1, 4, requires_grad=True)
    optimizer = torch.optim.Adam([image], lr=0.1)
    for _ in range(4):
        optimizer.zero_grad()
        F.mse_loss(net(image), target).backward()
        optimizer.step()
        image = torch.clamp(image.detach(), 0, 1).requires_grad_()  # verify: optimizer-of-old-tensor confirmed, unseen by the linter


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.score = nn.Linear(4, 1)

    def weights(self, x, mask):
        weights = F.softmax(self.score(x).squeeze(-1), dim=1)
        return weights.masked_fill(mask, -1e9)  # verify: fill-after-softmax confirmed

    def forward(self, x, mask):
        return (self.weights(x, mask).unsqueeze(-1) * x).sum(1)


def attend():
    model = Attention()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-9)
    for x in torch.randn(4, 8, 5, 4):
        optimizer.zero_grad()
        model(x, torch.arange(5) > 3).mean().backward()
        optimizer.step()


for _ in range(3):
    epoch(net)
fit_an_image(torch.ones(1, 1))
attend()
