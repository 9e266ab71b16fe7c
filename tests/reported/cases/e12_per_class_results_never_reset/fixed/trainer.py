import torch
from torch import nn
from torch.nn import functional as F

from evaluator import build_evaluator


class SimpleTrainer:
    def __init__(self, cfg, dm):
        self.cfg = cfg
        self.dm = dm
        self.model = nn.Sequential(nn.Linear(dm.dim, 32), nn.ReLU(), nn.Linear(32, len(dm.lab2cname)))
        self.optim = torch.optim.SGD(self.model.parameters(), lr=cfg["OPTIM"]["LR"], momentum=0.9)
        self.evaluator = build_evaluator(cfg, lab2cname=dm.lab2cname)
        self.history = []

    def train(self):
        for self.epoch in range(self.cfg["OPTIM"]["MAX_EPOCH"]):
            self.run_epoch()
            self.after_epoch()

    def run_epoch(self):
        self.model.train()
        for data, label in self.dm.train_loader_x:
            loss = F.cross_entropy(self.model(data), label)
            self.optim.zero_grad()
            loss.backward()
            self.optim.step()

    def after_epoch(self):
        results = self.test()
        self.history.append(results)
        print(f"epoch {self.epoch} " + " ".join(f"{name} {value:.2f}" for name, value in results.items()))

    @torch.no_grad()
    def test(self):
        self.model.eval()
        self.evaluator.reset()
        for data, label in self.dm.test_loader:
            self.evaluator.process(self.model(data), label)
        return self.evaluator.evaluate()
