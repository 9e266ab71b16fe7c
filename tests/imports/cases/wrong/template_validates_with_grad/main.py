import torch
import torch.nn.functional as F
from base import Trainer
from torch import nn


class Regression(Trainer):
    def errors(self, batch):
        x, y = batch
        return F.mse_loss(self.model(x), y)

    def train_batch(self, batch):
        return self.errors(batch)

    def check_batch(self, batch):
        return self.errors(batch).item()


def main():
    torch.manual_seed(0)
    batches = [(torch.randn(8, 4), torch.randn(8, 1)) for _ in range(10)]
    Regression(nn.Linear(4, 1), (batches[:7], batches[7:])).fit(3)


if __name__ == "__main__":
    main()
