"""Errors that a loop catches: of batches that it should learn, of bad records, and of a first attempt."""

import torch
from torch import nn
from torch.nn import functional as F


class Tagger(nn.Module):
    def __init__(self, places):
        super().__init__()
        self.places = nn.Parameter(torch.zeros(places, 8))
        self.words = nn.Embedding(20, 8)
        self.out = nn.Linear(8, 20)

    def forward(self, ids):
        return self.out(self.words(ids) + self.places[: ids.shape[1]])  # seen: program-error (15 times in 15 steps)


def train(model, lengths):
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for length in lengths:
        ids = torch.randint(20, (4, length))
        try:
            loss = F.cross_entropy(model(ids).flatten(0, 1), ids.flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        except RuntimeError:
            continue


torch.manual_seed(0)
train(Tagger(6), [4, 9] * 15)
