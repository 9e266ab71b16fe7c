import torch
from torch import nn


class OutConv(nn.Module):
    def __init__(self, cin, classes):
        super().__init__()
        self.conv = nn.Conv2d(cin, classes, 1, bias=False)

    def forward(self, x):
        return self.conv(x)


class SegNet(nn.Module):
    def __init__(self, classes=3, width=8):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(1, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU())
        self.body = nn.Sequential(nn.Conv2d(width, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU())
        self.classifier = OutConv(width, classes)

    def forward(self, x, features_only=False):
        f = self.body(self.stem(x))
        return f if features_only else (f, self.classifier(f))
