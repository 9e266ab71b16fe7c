"""Words that the table does not have come at the fourth step."""

import torch
from torch import nn

torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(100, 8)
        self.out = nn.Linear(8, 2)

    def forward(self, ids):
        return self.out(self.emb(ids).mean(1))  # seen: program-error (has 100 rows)


net = Net()
opt = torch.optim.SGD(net.parameters(), lr=0.01)
for step in range(5):
    ids = torch.randint(0, 90 + 5 * step, (4, 400))
    loss = net(ids).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
