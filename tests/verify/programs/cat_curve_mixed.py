"""Sequence tagger; the loss curve is grown with torch.cat and summarised each epoch."""
import gc

import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(31)
VOCAB, TAGS = 25, 4

tagger = nn.ModuleDict({"emb": nn.Embedding(VOCAB, 12), "gru": nn.GRU(12, 16, batch_first=True), "out": nn.Linear(16, TAGS)})
opt = torch.optim.Adam(tagger.parameters(), lr=5e-3)


def forward(tokens):
    h, _ = tagger["gru"](tagger["emb"](tokens))
    return tagger["out"](h)


def cleanup(force=False):
    gc.collect()
    torch.cuda.empty_cache()  # verify: empty-cache-in-loop refuted


for epoch in range(3):
    curve = torch.empty(0)
    for batch in range(12):
        tokens = torch.randint(0, VOCAB, (8, 9))
        tags = tokens % TAGS
        loss = nn.functional.cross_entropy(forward(tokens).transpose(1, 2), tags)
        opt.zero_grad()
        loss.backward()
        opt.step()
        curve = torch.cat([curve, loss.reshape(1)])  # verify: undetached-accumulation confirmed
    print(f"epoch {epoch}: mean {curve.mean().item():.4f} min {curve.min().item():.4f}")
    cleanup()
