import torch.nn as nn
class Transformer(nn.Module):
    def __init__(self, vocab=50304, dim=512, depth=4):
        super().__init__()
        self.tok = nn.Embedding(vocab, dim)
        self.blocks = nn.ModuleList([nn.TransformerEncoderLayer(dim, 8, batch_first=True) for _ in range(depth)])
        self.head = nn.Linear(dim, vocab)
    def forward(self, ids):
        x = self.tok(ids)
        for block in self.blocks:
            x = block(x)
        return self.head(x)
