import torch
import torch.nn as nn
import torch.nn.functional as F


class SupConLoss(nn.Module):
    def __init__(self, temperature=0.05):
        super().__init__()
        self.temperature = temperature

    def forward(self, features, labels):
        sim = features @ features.T / self.temperature
        sim = sim - sim.max(dim=1, keepdim=True).values.detach()
        eye = torch.eye(len(sim), dtype=torch.bool, device=sim.device)
        same = (labels[:, None] == labels[None, :]) & ~eye
        log_prob = sim - torch.log((torch.exp(sim) * ~eye).sum(1, keepdim=True) + 1e-12)
        per_anchor = (same * log_prob).sum(1) / same.sum(1).clamp(min=1)
        return -per_anchor.mean()
