import torch
from torch import nn
from pyramid import Pyramid

torch.manual_seed(0)
net = Pyramid(3)
opt = torch.optim.Adam(net.parameters(), lr=5e-3)
for step in range(40):
    img = torch.rand(8, 1, 16, 16)
    terms = []
    total = 0
    for scale, out in net.levels(img):
        term = nn.functional.l1_loss(out, 1 - scale)
        terms.append(term)
        total = total + term / (1 + len(terms))
    opt.zero_grad()
    total.backward()
    opt.step()
print("terms", ["%.3f" % t.item() for t in terms])
