"""Tiny language model with tied embeddings; two optimizers share the tied table."""
import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(14)
V, E = 20, 16


class TiedLM(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(V, E)
        self.rnn = nn.RNN(E, E, batch_first=True)
        self.proj = nn.Linear(E, V, bias=False)
        self.proj.weight = self.emb.weight
        self.aux = nn.Linear(E, 2)

    def forward(self, ids):
        h, _ = self.rnn(self.emb(ids))
        return self.proj(h), self.aux(h[:, -1])


lm = TiedLM()
table_opt = torch.optim.SGD([lm.emb.weight], lr=0.1)
rest_opt = torch.optim.Adam([lm.proj.weight, *lm.rnn.parameters(), *lm.aux.parameters()], lr=1e-3)

for step in range(16):
    ids = torch.randint(0, V, (8, 7))
    logits, aux = lm(ids[:, :-1])
    nll = nn.functional.cross_entropy(logits.reshape(-1, V), ids[:, 1:].reshape(-1))
    parity = nn.functional.cross_entropy(aux, ids[:, -1] % 2)
    nll.backward(retain_graph=True)  # verify: retain-graph-in-loop refuted
    (0.1 * parity).backward()  # verify: missing-zero-grad refuted
    table_opt.step()
    rest_opt.step()
    rest_opt.zero_grad()

print("nll", nll.item(), "parity", parity.item())
