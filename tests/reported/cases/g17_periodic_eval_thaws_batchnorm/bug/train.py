import torch
from torch import nn
from torch.utils.data import TensorDataset

from strategy import FrozenNormStrategy


def experience(shift, classes, n=128):
    y = torch.tensor(classes)[torch.randint(len(classes), (n,))]
    x = torch.randn(n, 12) + shift
    x[torch.arange(n), y] += 3
    return TensorDataset(x, y)


def main():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(12, 24), nn.BatchNorm1d(24), nn.ReLU(), nn.Linear(24, 4))
    strategy = FrozenNormStrategy(model, torch.optim.SGD(model.parameters(), lr=0.05), nn.CrossEntropyLoss())
    stream = [experience(0.0, [0, 1]), experience(2.0, [2, 3])]
    tests = [experience(0.0, [0, 1]), experience(2.0, [2, 3])]
    means = []
    for exp in stream:
        strategy.train(exp, tests)
        means.append(model[1].running_mean.clone())
    print("accuracies", [round(v, 3) for v in strategy.results[-2:]])
    return means


if __name__ == "__main__":
    main()
