import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

from distillation import Distillation


class TokenEncoder(nn.Module):
    def __init__(self, vocabulary=100, width=32, dim=16):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.dense = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.Linear(width, dim, bias=False))

    def forward(self, tokens):
        return self.dense(self.embedding(tokens))


class KDProcessing(Dataset):
    """Queries with n candidates; where there are fewer, the last one is repeated."""

    def __init__(self, count=48, n_ways=4):
        generator = torch.Generator().manual_seed(5)
        self.queries = torch.randint(1, 100, (count, 6), generator=generator)
        self.documents = torch.randint(1, 100, (count, n_ways, 10), generator=generator)
        self.scores = torch.rand(count, n_ways, generator=generator)
        for index in range(7, count, 16):
            self.documents[index] = self.documents[index, :1]
            self.scores[index] = self.scores[index, :1]

    def __len__(self):
        return len(self.queries)

    def __getitem__(self, index):
        return self.queries[index], self.documents[index], self.scores[index]


def main(fp16=True, epochs=1):
    torch.manual_seed(0)
    model = TokenEncoder()
    loss_function = Distillation(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for epoch in range(epochs):
        for step, (queries, documents, scores) in enumerate(DataLoader(KDProcessing(), batch_size=4)):
            with torch.autocast("cpu", dtype=torch.float16, enabled=fp16):
                loss = loss_function(queries, documents, scores)
            optimizer.zero_grad()
            loss.backward()
            bad = sum(not torch.isfinite(p.grad).all() for p in model.parameters())
            print(f"step {step} loss {loss.item():.4f} parameters with NaN gradients {bad}")
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()


if __name__ == "__main__":
    main()
