import torch
import torch.nn as nn

class AdaptedQkv(nn.Module):
    def __init__(self, qkv, q_down, q_up, v_down, v_up):
        super().__init__()
        self.qkv = qkv
        self.q_down, self.q_up, self.v_down, self.v_up = q_down, q_up, v_down, v_up
        self.dim = qkv.in_features
    def forward(self, x):
        out = self.qkv(x)
        out[..., : self.dim] += self.q_up(self.q_down(x))
        out[..., -self.dim:] += self.v_up(self.v_down(x))
        return out

class Attention(nn.Module):
    def __init__(self, dim, heads=8):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, dim * 3)
        self.proj = nn.Linear(dim, dim)
    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(x).reshape(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        return self.proj(nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, n, d))

class Block(nn.Module):
    def __init__(self, dim, rank=4):
        super().__init__()
        self.norm1 = nn.LayerNorm(dim)
        self.attn = Attention(dim)
        self.norm2 = nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))
        low = lambda: nn.Linear(dim, rank, bias=False)
        high = lambda: nn.Linear(rank, dim, bias=False)
        self.adapter = AdaptedQkv(self.attn.qkv, low(), high(), low(), high())
    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))

class Encoder(nn.Module):
    def __init__(self, dim=256, depth=4):
        super().__init__()
        self.patch = nn.Conv2d(3, dim, 16, 16)
        self.blocks = nn.ModuleList([Block(dim) for _ in range(depth)])
    def forward(self, x):
        x = self.patch(x).flatten(2).transpose(1, 2)
        for block in self.blocks:
            x = block(x)
        return x
