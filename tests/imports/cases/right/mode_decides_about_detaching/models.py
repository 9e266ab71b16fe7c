import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, n_in=4, n_out=3):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(n_in, 8), nn.ReLU())
        self.head = nn.Linear(8, n_out)

    def forward(self, x):
        out = self.head(self.body(x))
        return out if self.training else out.detach()


def batches(n=5):
    return [(torch.randn(6, 4), torch.randint(0, 3, (6,))) for _ in range(n)]
