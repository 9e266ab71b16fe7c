import torch
from torch.nn import functional


class Memory:
    def __init__(self, extractor, classes):
        self.extractor = extractor
        self.classes = classes

    def fit(self, x, y):
        optimizer = torch.optim.SGD(self.extractor.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            functional.mse_loss(self.extractor(x), y).backward()
            optimizer.step()

    def average(self):
        """The mean feature of each class."""
        self.extractor.eval()
        means = []
        for examples in self.classes:
            total = torch.zeros(1, 8)
            for example in examples:
                total += functional.normalize(self.extractor(example.unsqueeze(0)), dim=1)
            means.append(total / len(examples))
        self.means = torch.cat(means)
