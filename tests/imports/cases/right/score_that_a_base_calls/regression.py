from base import BaseTrainer
from metrics import error
from torch.nn import functional


class Regression(BaseTrainer):
    def train_epoch(self):
        for x, y in self.batches:
            self.optimizer.zero_grad()
            functional.mse_loss(self.model(x), y).backward()
            self.optimizer.step()

    def score(self):
        self.model.eval()
        errors = []
        for x, y in self.batches:
            errors.append(error(self.model(x), y))
        return sum(errors) / len(errors)
