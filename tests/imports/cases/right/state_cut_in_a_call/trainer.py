import torch
import torch.nn.functional as F
from loading import *


class Trainer:
    def __init__(self, model, optimizer):
        self.model, self.optimizer, self.h = model, optimizer, None

    def fit(self, loader):
        self.model.train()
        for x, y in loader:
            self.optimizer.zero_grad()
            out, self.h = self.model(x, self.h)
            loss = F.cross_entropy(out.flatten(0, 1), y.flatten())
            loss.backward()
            self.optimizer.step()
