import torch
import torch.nn as nn
import torch.optim as optim

class Generator(nn.Module):
    def __init__(self, side, channels, noise_size, lr):
        super().__init__()
        self.shape = (channels, side, side)
        self.layers = nn.Sequential(nn.Linear(noise_size, 256), nn.LeakyReLU(0.2), nn.Linear(256, channels * side ** 2), nn.Tanh())
        self.optimizer = optim.Adam(self.parameters(), lr=lr)
    def forward(self, x):
        return self.layers(x).view(-1, *self.shape)

class Discriminator(nn.Module):
    def __init__(self, side, channels, lr):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(channels * side ** 2, 512), nn.LeakyReLU(0.2), nn.Dropout(0.3), nn.Linear(512, 1), nn.Sigmoid())
        self.optimizer = optim.Adam(self.parameters(), lr=lr)
    def forward(self, x):
        return self.layers(x.flatten(1))

class Pair:
    def __init__(self, side, channels, noise_size, device, lr):
        self.noise_size = noise_size
        self.device = device
        self.generator = Generator(side, channels, noise_size, lr).to(device)
        self.discriminator = Discriminator(side, channels, lr).to(device)
        self.bce = nn.BCELoss()

    def step(self, data):
        real = data[0].to(self.device)
        n = real.shape[0]
        self.discriminator.zero_grad()
        label = torch.full((n,), 1.0, device=self.device)
        loss_real = self.bce(self.discriminator(real).view(-1), label)
        loss_real.backward()
        noise = torch.randn(n, self.noise_size, device=self.device)
        fake = self.generator(noise)
        label.fill_(0.0)
        loss_fake = self.bce(self.discriminator(fake.detach()).view(-1), label)
        loss_fake.backward()
        self.discriminator.optimizer.step()
        self.generator.zero_grad()
        label.fill_(1.0)
        loss_g = self.bce(self.discriminator(fake).view(-1), label)
        loss_g.backward()
        self.generator.optimizer.step()
        return loss_real + loss_fake, loss_g

def train(loader, epochs, device="cuda"):
    gan = Pair(28, 1, 128, device, 2e-4)
    for _ in range(epochs):
        for data in loader:
            gan.step(data)
