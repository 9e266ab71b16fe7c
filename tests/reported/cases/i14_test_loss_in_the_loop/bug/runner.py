import torch
import torch.nn as nn
import torch.optim as optim
from torch.utils.data import DataLoader

class Score(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(3, width, 3, padding=1), nn.BatchNorm2d(width), nn.ELU(), nn.Conv2d(width, 3, 3, padding=1))
    def forward(self, x):
        return self.net(x)

def denoising_loss(score, x, sigma):
    noise = torch.randn_like(x) * sigma
    target = -noise / sigma ** 2
    return 0.5 * ((score(x + noise) - target) ** 2).flatten(1).sum(-1).mean() * sigma ** 2

class Runner:
    def __init__(self, args, config):
        self.args = args
        self.config = config

    def train(self, dataset, test_dataset):
        dataloader = DataLoader(dataset, batch_size=self.config.batch_size, shuffle=True)
        test_loader = DataLoader(test_dataset, batch_size=self.config.batch_size, shuffle=True)
        test_iter = iter(test_loader)
        score = Score(self.config.width).to(self.config.device)
        optimizer = optim.Adam(score.parameters(), lr=self.config.lr)
        score.train()
        step = 0
        for epoch in range(self.config.epochs):
            for X, _ in dataloader:
                step += 1
                X = X.to(self.config.device)
                loss = denoising_loss(score, X, self.config.sigma)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                if step >= self.config.last_step:
                    return
                if step % 100 == 0:
                    score.eval()
                    try:
                        held_out, _ = next(test_iter)
                    except StopIteration:
                        test_iter = iter(test_loader)
                        held_out, _ = next(test_iter)
                    with torch.no_grad():
                        print(step, denoising_loss(score, held_out.to(self.config.device), self.config.sigma).item())
