import torch
from losses import make_criterion


class Trainer:
    def __init__(self, model):
        self.model = model
        self.criterion = make_criterion()
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def fit(self, loader):
        total = 0.0
        for x, y in loader:
            loss = self.criterion(self.model(x), y)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            total += loss.item()
        return total / len(loader)
