import math

import torch
from torch import nn


class MultiHeadSelfAttention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        assert width % heads == 0
        self.heads = heads
        self.head_width = width // heads
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)

    def attend(self, query, key, value, visible):
        scores = query @ key.transpose(-2, -1) / math.sqrt(self.head_width)
        if visible is not None:
            scores = scores.masked_fill(~visible, -1e9)
        return torch.softmax(scores, dim=-1) @ value

    def forward(self, x, visible=None):
        batch, length, width = x.shape
        qkv = self.qkv(x).reshape(batch, length, self.heads, 3 * self.head_width).permute(0, 2, 1, 3)
        query, key, value = qkv.chunk(3, dim=-1)
        values = self.attend(query, key, value, visible)
        values = values.permute(0, 2, 1, 3).reshape(batch, length, width)
        return self.out(values)


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.attention = MultiHeadSelfAttention(width, heads)
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x, visible):
        x = self.norms[0](x + self.attention(x, visible))
        return self.norms[1](x + self.mlp(x))
