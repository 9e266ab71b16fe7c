import torch


class Bandit:
    def __init__(self, n):
        self.n = n

    def context(self):
        self.last = torch.rand(self.n)
        return self.last

    def pull(self, a):
        return float(self.last[a])
