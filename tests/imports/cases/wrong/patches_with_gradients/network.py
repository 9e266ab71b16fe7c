import torch.nn.functional as F
from torch import nn


class Network(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(width, width) for _ in range(3)])
        self.head = nn.Linear(width, width)

    def forward(self, x):
        for layer in self.layers:
            x = F.relu(layer(x))
        return self.head(x)

    def patched(self, x, place, value):
        """The output with one activation replaced."""
        for i, layer in enumerate(self.layers):
            x = layer(x)
            x = F.relu(x)
            if i == 0 and place == "first":
                x[:, -1] = value[:, -1]
            elif i == 1 and place == "second":
                x[:, -1] = value[:, -1]
        return self.head(x)
