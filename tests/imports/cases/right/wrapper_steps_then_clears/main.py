import torch
from torch import nn
from noam import Noam

torch.manual_seed(0)
emb = nn.Embedding(20, 8)
head = nn.Linear(8, 20)
params = [*emb.parameters(), *head.parameters()]
opt = Noam(torch.optim.Adam(params, lr=0.0), dim=8, warm=10)
for i in range(80):
    ids = torch.randint(20, (64,))
    loss = nn.functional.cross_entropy(head(emb(ids)), (ids * 7 + 3) % 20)
    loss.backward()
    opt.advance()
    if i % 20 == 0:
        print(i, "%.4f" % loss.item(), "lr %.4f" % opt.rate)
print("end %.4f" % loss.item())
