"""Optimizers that are made once per model and hold their tensors, and settings that agree."""

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
torch.backends.cudnn.benchmark = True  # verify: benchmark-with-deterministic refuted, unseen by the linter
net = nn.Linear(4, 1)
optimizer = torch.optim.Adam(net.parameters(), lr=0.01)  # verify: rebuilt-optimizer refuted, unseen by the linter
for _ in range(2):
    for x in torch.randn(4, 8, 4):
        optimizer.zero_grad()
        F.mse_loss(net(x), x[:, :1]).backward()
        optimizer.step()


def fold(seed):
    """A model of its own for each fold."""
    torch.manual_seed(seed)
    model = nn.Linear(4, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)  # verify: rebuilt-optimizer refuted
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
        with torch.no_grad():
            image = image.clamp_(0, 1)  # verify: optimizer-of-old-tensor refuted, says inconclusive


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.score = nn.Linear(4, 1)

    def forward(self, x, mask):
        scores = self.score(x).squeeze(-1)
        scores = scores.masked_fill(mask, -1e9)  # verify: fill-after-softmax refuted
        return (F.softmax(scores, dim=1).unsqueeze(-1) * x).sum(1)


def attend():
    model = Attention()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for x in torch.randn(5, 8, 5, 4):
        optimizer.zero_grad()
        model(x, torch.arange(5) > 3).mean().backward()
        optimizer.step()


for seed in range(3):
    fold(seed)
fit_an_image(torch.ones(1, 1))
attend()
