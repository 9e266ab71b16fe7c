"""Single-head attention classifier with padding, masks applied before and after the softmax."""
import math

import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(71)


class Attention(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(d, d) for _ in range(3))

    def forward(self, x, pad):
        q, k, v = self.q(x), self.k(x), self.v(x)
        scores = q @ k.transpose(1, 2) / math.sqrt(x.size(-1))
        scores.masked_fill_(pad[:, None, :], -1e9)
        weights = scores.softmax(-1)
        weights *= (~pad)[:, :, None]  # verify: inplace-on-saved-tensor confirmed
        return weights @ v


class Classifier(nn.Module):
    def __init__(self, vocab=15, d=12):
        super().__init__()
        self.emb = nn.Embedding(vocab, d, padding_idx=0)
        self.att = Attention(d)
        self.out = nn.Linear(d, 2)

    def forward(self, ids):
        pad = ids.eq(0)
        return self.out(self.att(self.emb(ids), pad).sum(1))


model = Classifier()
opt = torch.optim.Adam(model.parameters(), lr=1e-3)
for epoch in range(2):
    for _ in range(10):
        ids = torch.randint(0, 15, (8, 6))
        loss = nn.functional.cross_entropy(model(ids), (ids.sum(1) % 2))
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(epoch, loss.item())
