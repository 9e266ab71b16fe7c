import torch
import torch.nn.functional as F


class Base:
    def __init__(self, model):
        self.model = model
        self.feats, self.total = [], 0.0


class Evaluator(Base):
    def run(self, loader):
        self.model.eval()
        for x, y in loader:
            out = self.model(x)
            self.feats.append(out)
            self.total += F.cross_entropy(out, y)
        return self.total
