"""Hand-written causal self-attention trained to copy the previous token."""
import math

import torch
from torch import nn


class CausalSelfAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        weights = torch.softmax(q @ k.transpose(-2, -1) / math.sqrt(d // self.heads), dim=-1)
        mask = torch.triu(torch.ones(t, t, dtype=torch.bool), diagonal=1)
        weights.masked_fill_(mask, 0.0)  # verify: inplace-on-saved-tensor confirmed
        out = (weights @ v).transpose(1, 2).reshape(b, t, d)
        return self.proj(out)


class CopyModel(nn.Module):
    def __init__(self, vocab=16, dim=24):
        super().__init__()
        self.tok = nn.Embedding(vocab, dim)
        self.norm = nn.LayerNorm(dim)
        self.attn = CausalSelfAttention(dim, heads=4)
        self.head = nn.Linear(dim, vocab)

    def forward(self, idx):
        h = self.tok(idx)
        return self.head(h + self.attn(self.norm(h)))


if __name__ == "__main__":
    torch.manual_seed(16)
    model = CopyModel()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step in range(15):
        seq = torch.randint(0, 16, (8, 10))
        logits = model(seq)[:, 1:]
        loss = nn.functional.cross_entropy(logits.reshape(-1, 16), seq[:, :-1].reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(step, loss.item())
