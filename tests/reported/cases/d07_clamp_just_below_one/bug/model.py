from torch import nn


class BoundaryModel(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(16, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
        self.marginal = nn.Linear(width, 1)
        self.left = nn.Linear(width, width)
        self.right = nn.Linear(width, width)

    def forward(self, tokens):
        h = self.encoder(tokens)
        pairs = self.left(h) @ self.right(h).transpose(1, 2)
        return self.marginal(h).squeeze(-1), pairs.flatten(1)
