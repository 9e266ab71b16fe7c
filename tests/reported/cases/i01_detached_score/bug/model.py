import torch.nn as nn
class Mapper(nn.Module):
    def __init__(self, channels, width):
        super().__init__()
        self.encoder = nn.Sequential(nn.Conv2d(channels, width, 3, padding=1), nn.ReLU())
        self.decoder = nn.Sequential(nn.Conv2d(width, 1, 3, padding=1), nn.Sigmoid())
    def forward(self, x):
        return self.decoder(self.encoder(x))
class Judge(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(1, width, 4, 2, 1), nn.LeakyReLU(0.2))
        self.head = nn.Linear(width, 1)
    def forward(self, x):
        return self.head(self.features(x).mean((2, 3))).sigmoid().squeeze(1)
