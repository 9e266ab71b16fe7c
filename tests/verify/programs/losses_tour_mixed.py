"""Losses of scores and of probabilities, by modules and functions, in reports as well as in training."""
import torch
from torch import nn
from torch.nn import functional as F

torch.set_num_threads(1)
torch.manual_seed(14)

plain = nn.Linear(5, 3)
ended = nn.Sequential(nn.Linear(5, 3), nn.Softmax(dim=1))
columns = nn.Sequential(nn.Linear(5, 3), nn.Softmax(dim=0))
pixels = nn.Sequential(nn.Conv2d(1, 4, 1), nn.Softmax(dim=1))
gate = nn.Sequential(nn.Linear(5, 1), nn.Sigmoid())
optimizer = torch.optim.SGD([*plain.parameters(), *ended.parameters(), *pixels.parameters(), *gate.parameters()], 0.1)
criterion = nn.CrossEntropyLoss()
binary = nn.BCEWithLogitsLoss()


def soft_labels(x):
    """The softmax is the target's."""
    return F.cross_entropy(plain(x), ended(x).detach())  # verify: softmax-before-cross-entropy refuted


for step in range(6):
    x, y = torch.randn(12, 5), torch.randint(3, (12,))
    optimizer.zero_grad()
    loss = criterion(ended(x), y)  # verify: softmax-before-cross-entropy confirmed
    loss = loss + criterion(F.log_softmax(plain(x), 1), y)  # verify: softmax-before-cross-entropy refuted
    loss = loss + soft_labels(x)
    loss = loss + F.cross_entropy(input=columns(x), target=y)  # verify: softmax-before-cross-entropy inconclusive
    maps = pixels(torch.randn(2, 1, 3, 3))
    loss = loss + criterion(  # verify: softmax-before-cross-entropy confirmed, unseen by the linter
        maps.bfloat16(), torch.randint(4, (2, 3, 3))
    ).float()
    for scores in (plain(x), ended(x)):
        loss = loss + criterion(scores, y)  # verify: softmax-before-cross-entropy inconclusive
    truth = torch.randint(2, (12, 1)).float()
    loss = loss + binary(gate(x), truth)  # verify: sigmoid-before-bce-with-logits confirmed
    loss = loss + binary(plain(x)[:, :1], truth)  # verify: sigmoid-before-bce-with-logits refuted
    loss.backward()
    optimizer.step()
