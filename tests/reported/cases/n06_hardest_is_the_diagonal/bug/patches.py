import torch
import torch.nn as nn
import torch.nn.functional as F


class PatchEncoder(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(width, 64), nn.GELU(), nn.Linear(64, 32))

    def forward(self, patch):
        return F.normalize(self.net(patch), dim=-1)


class HardTriplet(nn.Module):
    def __init__(self, margin=0.5):
        super().__init__()
        self.margin = margin

    def forward(self, anchor, positive):
        sim = anchor @ positive.T
        pos_sims = sim.diagonal()
        others = sim.clone()
        others.diagonal().fill_(-float("inf"))
        neg_dists = 1 - others
        hard_neg, _ = torch.max(neg_dists, dim=1)
        pos_dists = 1 - pos_sims
        return F.relu(pos_dists - hard_neg + self.margin).mean()


def train(encoder, loader, epochs=2):
    criterion = HardTriplet()
    optimizer = torch.optim.AdamW(encoder.parameters(), lr=1e-4)
    encoder.train()
    for _ in range(epochs):
        for a, p in loader:
            loss = criterion(encoder(a), encoder(p))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    train(PatchEncoder(), [(torch.randn(16, 64), torch.randn(16, 64)) for _ in range(5)])
