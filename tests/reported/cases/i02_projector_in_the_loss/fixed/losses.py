import torch.nn as nn
import torch.nn.functional as F
class AlignmentLoss(nn.Module):
    def __init__(self, dim, teacher_dim, depth=2):
        super().__init__()
        self.projectors = nn.ModuleList([nn.Sequential(nn.Linear(dim, dim), nn.SiLU(), nn.Linear(dim, teacher_dim)) for _ in range(depth)])
    def forward(self, hidden, teacher):
        total = 0.0
        for projector, h, t in zip(self.projectors, hidden, teacher):
            total = total + (1 - F.cosine_similarity(projector(h), t, dim=-1)).mean()
        return total / len(self.projectors)
