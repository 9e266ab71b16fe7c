import torch
from model import Tagger
from objective import build_loss

torch.manual_seed(0)
net = Tagger(30, 5)
criterion = build_loss("nll", ignore=0)
opt = torch.optim.Adam(net.parameters(), lr=0.03)
for i in range(60):
    words = torch.randint(30, (8, 12))
    tags = words % 5
    opt.zero_grad()
    loss = criterion(net(words).flatten(0, 1), tags.flatten())
    loss.backward()
    opt.step()
    if i % 20 == 0:
        print(i, "%.4f" % loss.item())
print("end %.4f" % loss.item())
