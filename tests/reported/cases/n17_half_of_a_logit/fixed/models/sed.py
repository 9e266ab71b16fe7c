import torch
from torch import nn


class SedNet(nn.Module):
    def __init__(self, bands=40, classes=6):
        super().__init__()
        self.front = nn.Sequential(nn.Conv1d(bands, 64, 5, padding=2), nn.BatchNorm1d(64), nn.ReLU())
        self.rnn = nn.GRU(64, 32, batch_first=True)
        self.classifier = nn.Linear(32, classes)

    def forward(self, x):
        h = self.front(x.transpose(1, 2)).transpose(1, 2)
        h, _ = self.rnn(h)
        return self.classifier(h)
