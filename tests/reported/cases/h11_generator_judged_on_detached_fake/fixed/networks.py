import torch
from torch import nn


class Encoder(nn.Module):
    def __init__(self, features=32):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(64, features))

    def forward(self, image):
        return self.net(image)


class Generator(nn.Module):
    def __init__(self, features=32, noise=8):
        super().__init__()
        self.noise = noise
        self.fc = nn.Linear(features + noise, 16 * 4 * 4)
        self.up = nn.Sequential(nn.ConvTranspose2d(16, 8, 4, 2, 1), nn.ReLU(), nn.ConvTranspose2d(8, 1, 4, 2, 1), nn.Tanh())

    def forward(self, f):
        z = torch.randn(f.shape[0], self.noise, device=f.device)
        return self.up(self.fc(torch.cat([f, z], 1)).view(-1, 16, 4, 4))


class Discriminator(nn.Module):
    def __init__(self, features=32):
        super().__init__()
        self.conv = nn.Sequential(nn.Conv2d(1, 16, 3, 2, 1), nn.LeakyReLU(0.2), nn.Conv2d(16, 16, 3, 2, 1), nn.LeakyReLU(0.2))
        self.out = nn.Linear(16 * 16 + features, 1)

    def forward(self, spec, f):
        return self.out(torch.cat([self.conv(spec).flatten(1), f], 1))
