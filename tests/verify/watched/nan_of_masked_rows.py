"""A row of a softmax is masked as a whole at a step which is not looked at."""

import torch
from torch import nn

torch.manual_seed(0)
torch.set_num_threads(1)
q = nn.Linear(8, 8)
k = nn.Linear(8, 8)
opt = torch.optim.SGD([*q.parameters(), *k.parameters()], lr=0.01)
for step in range(120):
    x = torch.randn(4, 6, 8)
    pad = torch.zeros(4, 6, dtype=torch.bool)
    pad[:, 4:] = True
    if step == 90:
        pad[2] = True
    scores = q(x) @ k(x).transpose(1, 2)
    scores = scores.masked_fill(pad[:, None, :], float("-inf"))
    att = torch.softmax(scores, dim=-1)  # seen: nonfinite-value (minus infinities)
    loss = (att @ x).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
