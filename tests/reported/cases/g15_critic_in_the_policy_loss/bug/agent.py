import torch
from torch import nn


class TourAgent(nn.Module):
    def __init__(self, dim=2, width=24):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(dim, width), nn.ReLU(), nn.Linear(width, width))
        self.query = nn.Linear(width, width)
        self.critic = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 1))

    def forward(self, coords):
        b, n, _ = coords.shape
        enc = self.encoder(coords)
        baseline = self.critic(enc.detach().mean(1)).squeeze(1)
        mask = torch.zeros(b, n, dtype=torch.bool)
        state, tour, logs = enc.mean(1), [], []
        for _ in range(n):
            scores = (enc @ self.query(state).unsqueeze(2)).squeeze(2) / enc.size(2) ** 0.5
            dist = torch.distributions.Categorical(logits=scores.masked_fill(mask, -1e9))
            idx = dist.sample()
            tour.append(idx)
            logs.append(dist.log_prob(idx))
            mask = mask.scatter(1, idx.unsqueeze(1), True)
            state = enc[torch.arange(b), idx]
        tour.append(tour[0])
        return torch.stack(tour, 1), baseline, torch.stack(logs, 1).sum(1)
