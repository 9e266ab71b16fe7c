"""Matrix factorisation with sparse embeddings: SparseAdam for the tables, Adam for the biases."""
from collections import defaultdict

import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(40)
N_USERS, N_ITEMS, DIM = 30, 50, 8


class MF(nn.Module):
    def __init__(self):
        super().__init__()
        self.user = nn.Embedding(N_USERS, DIM, sparse=True)
        self.item = nn.Embedding(N_ITEMS, DIM, sparse=True)
        self.bias = nn.Parameter(torch.zeros(N_ITEMS))
        self.mu = nn.Parameter(torch.zeros(()))

    def forward(self, u, i):
        return (self.user(u) * self.item(i)).sum(-1) + self.bias[i] + self.mu


mf = MF()
sparse_opt = torch.optim.SparseAdam([mf.user.weight, mf.item.weight], lr=0.02)
dense_opt = torch.optim.Adam([mf.bias, mf.mu], lr=0.02)
stats = defaultdict(lambda: defaultdict(float))

for step in range(18):
    u = torch.randint(0, N_USERS, (64,))
    i = torch.randint(0, N_ITEMS, (64,))
    r = torch.rand(64) * 5
    err = mf(u, i) - r
    loss = err.pow(2).mean()
    dense_opt.zero_grad()
    loss.backward()  # verify: missing-zero-grad confirmed
    dense_opt.step()
    sparse_opt.step()  # verify: missing-zero-grad confirmed, unseen by the linter
    stats["train"]["sse"] += err.pow(2).sum()  # verify: undetached-accumulation confirmed
    stats["train"]["n"] += len(u)

print("rmse", float(stats["train"]["sse"] / stats["train"]["n"]) ** 0.5)
