import torch
from torch import nn

from losses import get_loss


class Ranker(nn.Module):
    def __init__(self):
        super().__init__()
        self.query = nn.Linear(24, 16)
        self.passage = nn.Linear(24, 16)

    def forward(self, query, passages):
        q, p = self.query(query), self.passage(passages)
        return torch.einsum("bd,bnd->bn", q, p)


def main():
    model = Ranker()
    criterion = get_loss({"loss": "kl_list"})
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for _ in range(50):
        query, passages, teacher = torch.randn(8, 24), torch.randn(8, 6, 24), torch.randn(8, 6)
        optimizer.zero_grad()
        loss = criterion(model(query, passages), teacher)
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main()
