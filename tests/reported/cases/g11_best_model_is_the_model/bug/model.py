import torch
from torch import nn


class BlockClassifier(nn.Module):
    """Encodes each statement of a function and reads the sequence with a GRU."""

    def __init__(self, tokens=30, embedding_dim=12, hidden_dim=16, labels=3):
        super().__init__()
        self.hidden_dim = hidden_dim
        self.batch_size = 1
        self.embedding = nn.Embedding(tokens, embedding_dim)
        self.reader = nn.GRU(embedding_dim, hidden_dim, bidirectional=True, batch_first=True)
        self.classify = nn.Linear(2 * hidden_dim, labels)
        self.hidden = None

    def init_hidden(self):
        return torch.zeros(2, self.batch_size, self.hidden_dim)

    def forward(self, blocks):
        statements = self.embedding(blocks).mean(2)
        out, self.hidden = self.reader(statements, self.hidden)
        return self.classify(out.max(1).values)
