"""fastai-like learning-rate finder that watches an exponential moving average of the loss."""
import math

import torch
import torch.nn as nn

torch.set_num_threads(1)
torch.manual_seed(1)


class LRFinder:
    def __init__(self, model, lo=1e-4, hi=1.0, n=32, beta=0.9):
        self.model, self.beta, self.n = model, beta, n
        self.opt = torch.optim.SGD(model.parameters(), lr=lo)
        self.mult = (hi / lo) ** (1 / n)
        self.avg = torch.zeros(())
        self.best = None
        self.slow = None

    def run(self, sampler):
        for k in range(self.n):
            x, y = sampler()
            loss = nn.functional.cross_entropy(self.model(x), y)
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
            self.avg = self.beta * self.avg + (1 - self.beta) * loss  # verify: undetached-accumulation confirmed
            self.slow = loss.detach() if self.slow is None else 0.99 * self.slow + 0.01 * loss.detach()
            if self.best is None or loss < self.best:
                self.best = loss  # verify: undetached-accumulation refuted, says inconclusive
            for g in self.opt.param_groups:
                g["lr"] *= self.mult
            corrected = self.avg / (1 - self.beta ** (k + 1))
            if math.isnan(corrected.item()):
                break
        return corrected.item(), self.best.item(), self.slow.item()


def sampler():
    x = torch.randn(24, 7)
    return x, (x @ torch.arange(-3.0, 4.0) > 0).long()


print(LRFinder(nn.Sequential(nn.Linear(7, 14), nn.Mish(), nn.Linear(14, 2))).run(sampler))
