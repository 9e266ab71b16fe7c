import torch
from torch import nn

from train_model import TrainModel


class RandomSequences:
    def __init__(self, length=20, features=3):
        self.motifs = torch.randn(features, 4 * length)
        self.length = length

    def sample(self, n):
        bases = torch.randint(4, (n, self.length))
        x = nn.functional.one_hot(bases, 4).float().flatten(1)
        return x, (x @ self.motifs.t() > 0).float()


def main():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(80, 32), nn.ReLU(), nn.Linear(32, 3), nn.Sigmoid())
    runner = TrainModel(model, RandomSequences(), nn.BCELoss(), torch.optim.SGD, {"lr": 0.3, "momentum": 0.9})
    best = runner.fit()
    for loss, lr in runner.history:
        print(f"validation {loss:.4f} lr {lr:.5f}")
    print(f"best {best:.4f}")
    return runner


if __name__ == "__main__":
    main()
