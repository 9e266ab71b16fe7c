import torch
import torch.nn as nn
from torch.nn import functional as F

class Attention(nn.Module):
    def __init__(self, options):
        super().__init__()
        self.qkv = nn.Linear(options.width, 3 * options.width)
        self.out = nn.Linear(options.width, options.width)
        self.drop_shares = nn.Dropout(options.dropout)
        self.drop_result = nn.Dropout(options.dropout)
        self.heads = options.heads
        self.width = options.width
        self.dropout = options.dropout
        self.fused = hasattr(torch.nn.functional, "scaled_dot_product_attention")
    def forward(self, x):
        batch, steps, size = x.size()
        q, k, v = self.qkv(x).split(self.width, dim=2)
        q, k, v = (t.view(batch, steps, self.heads, size // self.heads).transpose(1, 2) for t in (q, k, v))
        if self.fused:
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=None, dropout_p=self.dropout if self.training else 0.0, is_causal=True)
        else:
            shares = (q @ k.transpose(-2, -1)) * (k.size(-1) ** -0.5)
            mask = torch.ones(steps, steps, dtype=torch.bool, device=x.device).tril()
            shares = self.drop_shares(shares.masked_fill(~mask, float("-inf")).softmax(-1))
            y = shares @ v
        y = y.transpose(1, 2).contiguous().view(batch, steps, size)
        return self.drop_result(self.out(y))
