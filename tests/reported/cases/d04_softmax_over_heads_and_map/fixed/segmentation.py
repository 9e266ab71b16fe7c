import torch
import torch.nn.functional as F
from torch import nn


class AttentionMap(nn.Module):
    def __init__(self, query_width, hidden, heads, dropout=0.0):
        super().__init__()
        self.heads = heads
        self.hidden = hidden
        self.dropout = nn.Dropout(dropout)
        self.q_proj = nn.Linear(query_width, hidden)
        self.k_proj = nn.Conv2d(query_width, hidden, 1)
        self.scale = float(hidden / heads) ** -0.5

    def forward(self, query, image, padding=None):
        query = self.q_proj(query)
        image = self.k_proj(image)
        qh = query.view(query.shape[0], query.shape[1], self.heads, self.hidden // self.heads)
        kh = image.view(image.shape[0], self.heads, self.hidden // self.heads, image.shape[-2], image.shape[-1])
        weights = torch.einsum("bqnc,bnchw->bqnhw", qh * self.scale, kh)
        if padding is not None:
            weights = weights.masked_fill(padding[:, None, None], float("-inf"))
        weights = F.softmax(weights.flatten(3), dim=-1).view(weights.size())
        return self.dropout(weights)


class MaskHead(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.attention = AttentionMap(width, width, heads)
        self.lay1 = nn.Conv2d(width + heads, 32, 3, padding=1)
        self.norm = nn.GroupNorm(4, 32)
        self.out = nn.Conv2d(32, 1, 3, padding=1)

    def forward(self, queries, image, padding):
        maps = self.attention(queries, image, padding)
        batch, count = maps.shape[:2]
        image = image.unsqueeze(1).expand(-1, count, -1, -1, -1)
        x = torch.cat([image, maps], dim=2).flatten(0, 1)
        x = F.relu(self.norm(self.lay1(x)))
        return self.out(x).view(batch, count, *x.shape[-2:]), maps
