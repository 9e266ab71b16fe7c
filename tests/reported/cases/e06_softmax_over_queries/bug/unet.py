import math
from typing import Optional

import torch
from torch import nn


class TimeEmbedding(nn.Module):
    def __init__(self, n_channels: int):
        super().__init__()
        self.n_channels = n_channels
        self.lin1 = nn.Linear(n_channels // 4, n_channels)
        self.lin2 = nn.Linear(n_channels, n_channels)
        self.act = nn.SiLU()

    def forward(self, t: torch.Tensor):
        half = self.n_channels // 8
        frequencies = torch.exp(torch.arange(half) * -(math.log(10_000) / (half - 1)))
        emb = t[:, None] * frequencies[None, :]
        return self.lin2(self.act(self.lin1(torch.cat((emb.sin(), emb.cos()), dim=1))))


class AttentionBlock(nn.Module):
    def __init__(self, n_channels: int, n_heads: int = 1, d_k: Optional[int] = None):
        super().__init__()
        d_k = n_channels if d_k is None else d_k
        self.projection = nn.Linear(n_channels, n_heads * d_k * 3)
        self.output = nn.Linear(n_heads * d_k, n_channels)
        self.scale = d_k ** -0.5
        self.n_heads = n_heads
        self.d_k = d_k

    def attention(self, q: torch.Tensor, k: torch.Tensor):
        attn = torch.einsum('bihd,bjhd->bijh', q, k) * self.scale
        return attn.softmax(dim=1)

    def forward(self, x: torch.Tensor, t: Optional[torch.Tensor] = None):
        _ = t
        batch_size, n_channels, height, width = x.shape
        x = x.view(batch_size, n_channels, -1).permute(0, 2, 1)
        qkv = self.projection(x).view(batch_size, -1, self.n_heads, 3 * self.d_k)
        q, k, v = torch.chunk(qkv, 3, dim=-1)
        res = torch.einsum('bijh,bjhd->bihd', self.attention(q, k), v)
        res = self.output(res.reshape(batch_size, -1, self.n_heads * self.d_k))
        res += x
        return res.permute(0, 2, 1).view(batch_size, n_channels, height, width)


class MiddleBlock(nn.Module):
    def __init__(self, n_channels: int, time_channels: int):
        super().__init__()
        self.conv1 = nn.Conv2d(n_channels, n_channels, 3, padding=1)
        self.time_emb = nn.Linear(time_channels, n_channels)
        self.attn = AttentionBlock(n_channels, n_heads=2)
        self.conv2 = nn.Conv2d(n_channels, n_channels, 3, padding=1)
        self.act = nn.SiLU()

    def forward(self, x: torch.Tensor, t: torch.Tensor):
        x = x + self.act(self.conv1(x)) + self.time_emb(t)[:, :, None, None]
        return self.conv2(self.act(self.attn(x)))


class UNet(nn.Module):
    def __init__(self, image_channels: int = 1, n_channels: int = 16):
        super().__init__()
        self.image_proj = nn.Conv2d(image_channels, n_channels, 3, padding=1)
        self.time_emb = TimeEmbedding(n_channels * 4)
        self.down = nn.Conv2d(n_channels, n_channels, 3, 2, 1)
        self.middle = MiddleBlock(n_channels, n_channels * 4)
        self.up = nn.ConvTranspose2d(n_channels, n_channels, 4, 2, 1)
        self.final = nn.Conv2d(n_channels * 2, image_channels, 3, padding=1)

    def forward(self, x: torch.Tensor, t: torch.Tensor):
        t = self.time_emb(t)
        x = self.image_proj(x)
        h = self.up(self.middle(self.down(x), t))
        return self.final(torch.cat((h, x), dim=1))
