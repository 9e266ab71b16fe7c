import torch
import torch.nn as nn
import torch.nn.functional as F
from layers import FinalLinear

class Decoder(nn.Module):
    def __init__(self, vocab, hidden, layers):
        super().__init__()
        self.embed = nn.Embedding(vocab, hidden)
        self.blocks = nn.ModuleList([nn.TransformerEncoderLayer(hidden, 8, batch_first=True) for _ in range(layers)])
        self.final_linear = FinalLinear(hidden, vocab)
    def forward(self, tokens):
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x)
        return self.final_linear(x)

def train(loader, device="cuda"):
    model = Decoder(50000, 512, 6).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    for tokens in loader:
        tokens = tokens.to(device)
        logits = model(tokens[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
