import torch


def compute_adjustment(loader, tau):
    frequency = {}
    for _, target in loader:
        for label in target:
            key = str(label.item())
            frequency[key] = frequency.get(key, 0) + 1
    frequency = dict(sorted(frequency.items()))
    counts = torch.tensor(list(frequency.values()), dtype=torch.float)
    return torch.log((counts / counts.sum()) ** tau + 1e-12)


class AverageMeter:
    def __init__(self):
        self.total, self.count = 0.0, 0

    def update(self, value, n):
        self.total += value * n
        self.count += n

    @property
    def average(self):
        return self.total / max(self.count, 1)


def balanced_accuracy(predicted, target, classes):
    hits = [(predicted[target == c] == c).float().mean() for c in range(classes)]
    return torch.stack(hits).mean().item()
