import torch.nn as nn


class Glow(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Conv2d(3, 3, 1)

    def forward(self, x):
        return self.net(x).pow(2).flatten(1).sum(1)
