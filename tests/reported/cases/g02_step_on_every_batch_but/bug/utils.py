import torch
from torch import nn


class TinyDetector(nn.Module):
    """A grid of cells; each predicts objectness and an offset."""

    def __init__(self, cells=9, dim=16):
        super().__init__()
        self.backbone = nn.Sequential(nn.Linear(dim, 32), nn.LeakyReLU(0.1), nn.Linear(32, 32), nn.LeakyReLU(0.1))
        self.pred = nn.Linear(32, cells * 3)
        self.cells = cells
        self.seen = 0

    def forward(self, x, targets=None):
        out = self.pred(self.backbone(x)).view(len(x), self.cells, 3)
        if targets is None:
            return out
        mask = targets[..., 0]
        obj = nn.functional.binary_cross_entropy_with_logits(out[..., 0], mask)
        box = ((out[..., 1:] - targets[..., 1:]).pow(2).sum(-1) * mask).sum() / mask.sum().clamp(min=1)
        self.seen += len(x)
        return obj + box, out


def fake_boxes(n, cells=9, dim=16):
    x = torch.randn(n, dim)
    t = torch.zeros(n, cells, 3)
    t[..., 0] = (x[:, :cells] > 0.5).float()
    t[..., 1] = x[:, :cells].sigmoid()
    t[..., 2] = x[:, 1:cells + 1].sigmoid()
    return x, t
