"""Programs about sizes that raise; after the fixes they come to their end, with the right elements."""

import torch


def transposed():
    x = torch.randn(2, 3, 4)
    merged = x.transpose(1, 2).view(2, 12)
    assert torch.equal(merged[0, :3], x[0, :, 0])
