import torch
from torchmetrics import Metric


class SubtokenF1(Metric):
    def __init__(self):
        super().__init__()
        self.add_state("hit", torch.tensor(0), dist_reduce_fx="sum")
        self.add_state("seen", torch.tensor(0), dist_reduce_fx="sum")

    def update(self, predicted, target):
        self.hit += (predicted == target).sum()
        self.seen += target.numel()

    def compute(self):
        return self.hit / self.seen
