import torch
import torch.nn.functional as F
from torch import nn

from attention import Block

VOCABULARY, LENGTH = 12, 10


class Decoder(nn.Module):
    def __init__(self, width=32, heads=4, depth=2):
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, width)
        self.positions = nn.Parameter(0.02 * torch.randn(LENGTH, width))
        self.blocks = nn.ModuleList([Block(width, heads) for _ in range(depth)])
        self.head = nn.Linear(width, VOCABULARY)
        self.register_buffer("visible", torch.ones(LENGTH, LENGTH).tril().bool())

    def forward(self, tokens):
        x = self.tokens(tokens) + self.positions[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x, self.visible[: tokens.shape[1], : tokens.shape[1]])
        return self.head(x)


def batches(count, size=64):
    generator = torch.Generator().manual_seed(3)
    for _ in range(count):
        yield torch.randint(0, VOCABULARY, (size, LENGTH + 1), generator=generator)


def main():
    torch.manual_seed(0)
    model = Decoder()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for tokens in batches(100):
        logits = model(tokens[:, :-1])
        loss = F.cross_entropy(logits.transpose(1, 2), tokens[:, 1:])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()
    first = torch.randint(0, VOCABULARY, (8, LENGTH))
    second = first.clone()
    second[:, -1] = (second[:, -1] + 1) % VOCABULARY
    with torch.no_grad():
        change = (model(first)[:, :-1] - model(second)[:, :-1]).abs().max().item()
    print(f"loss on random tokens {loss.item():.3f} (chance 2.485); a later token changes earlier outputs by {change:.4f}")


if __name__ == "__main__":
    main()
