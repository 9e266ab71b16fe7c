import torch
from torch import nn

__all__ = ["Encoder", "features"]


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(4, 8)
        self.head = nn.Linear(8, 1)

    def forward(self, x):
        return self.head(self.body(x))


@torch.no_grad()
def features(net, x):
    """Features of a batch."""
    return net.body(x)
