import torch
from torch import nn
from ema import Average

def train(loader, steps):
    net = nn.Sequential(nn.Conv2d(3, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU(), nn.Conv2d(64, 3, 3, padding=1))
    ema = Average(net)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-4)
    for _, (noisy, clean) in zip(range(steps), loader):
        loss = nn.functional.mse_loss(net(noisy), clean)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        ema.update()
    ema.eval()
    return ema
