import torch
import torch.nn.functional as F
from torch import nn
from teacher import soft_labels

torch.manual_seed(0)
big = nn.Linear(6, 4)
small = nn.Sequential(nn.Linear(6, 3), nn.Tanh(), nn.Linear(3, 4))
opt = torch.optim.Adam(small.parameters(), lr=0.03)
first = None
for _ in range(80):
    x = torch.randn(32, 6)
    loss = F.cross_entropy(small(x), soft_labels(big, x))
    opt.zero_grad()
    loss.backward()
    opt.step()
    first = first or loss.item()
print("%.4f -> %.4f" % (first, loss.item()))
