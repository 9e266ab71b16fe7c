import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

from gathering import gather


class ContrastiveLoss(nn.Module):
    def __init__(self, temperature=0.5, gather_distributed=False):
        super().__init__()
        self.temperature = temperature
        self.gather_distributed = gather_distributed

    def forward(self, first, second):
        first, second = F.normalize(first, dim=1), F.normalize(second, dim=1)
        labels = torch.arange(len(first))
        if self.gather_distributed and dist.get_world_size() > 1:
            all_first, all_second = gather(first), gather(second)
            labels = labels + dist.get_rank() * len(first)
        else:
            all_first, all_second = first, second
        forward = first @ all_second.T / self.temperature
        backward = second @ all_first.T / self.temperature
        return (F.cross_entropy(forward, labels) + F.cross_entropy(backward, labels)) / 2
