import torch.nn.functional as F
from base import BaseTrainer


class Regression(BaseTrainer):
    seen = 0

    def before_batch(self, batch):
        self.seen += len(batch[0])

    def compute_loss(self, batch):
        x, y = batch
        return F.mse_loss(self.model(x), y)
