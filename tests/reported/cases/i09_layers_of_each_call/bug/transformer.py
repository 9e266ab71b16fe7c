import numpy as np
import torch
import torch.nn as nn
import torch.optim as optim

WIDTH, HEAD_WIDTH, HEADS = 512, 64, 8

class Weighting(nn.Module):
    def forward(self, q, k, v, mask):
        raw = torch.matmul(q, k.transpose(-1, -2)) / np.sqrt(HEAD_WIDTH)
        raw.masked_fill_(mask, -1e9)
        share = nn.Softmax(dim=-1)(raw)
        return torch.matmul(share, v), share

class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.to_query = nn.Linear(WIDTH, HEAD_WIDTH * HEADS)
        self.to_key = nn.Linear(WIDTH, HEAD_WIDTH * HEADS)
        self.to_value = nn.Linear(WIDTH, HEAD_WIDTH * HEADS)
    def forward(self, Q, K, V, mask):
        kept, n = Q, Q.size(0)
        q = self.to_query(Q).view(n, -1, HEADS, HEAD_WIDTH).transpose(1, 2)
        k = self.to_key(K).view(n, -1, HEADS, HEAD_WIDTH).transpose(1, 2)
        v = self.to_value(V).view(n, -1, HEADS, HEAD_WIDTH).transpose(1, 2)
        mixed, share = Weighting()(q, k, v, mask.unsqueeze(1))
        mixed = mixed.transpose(1, 2).contiguous().view(n, -1, HEADS * HEAD_WIDTH)
        output = nn.Linear(HEADS * HEAD_WIDTH, WIDTH)(mixed)
        return nn.LayerNorm(WIDTH)(output + kept), share

class Encoder(nn.Module):
    def __init__(self, vocab, n_layers=6):
        super().__init__()
        self.emb = nn.Embedding(vocab, WIDTH)
        self.layers = nn.ModuleList([Attention() for _ in range(n_layers)])
        self.projection = nn.Linear(WIDTH, vocab, bias=False)
    def forward(self, tokens):
        mask = tokens.eq(0).unsqueeze(1)
        x = self.emb(tokens)
        for layer in self.layers:
            x, _ = layer(x, x, x, mask)
        return self.projection(x)

def train(batches, vocab):
    model = Encoder(vocab)
    criterion = nn.CrossEntropyLoss()
    optimizer = optim.Adam(model.parameters(), lr=0.001)
    for tokens, target in batches:
        optimizer.zero_grad()
        loss = criterion(model(tokens).view(-1, vocab), target.view(-1))
        loss.backward()
        optimizer.step()
