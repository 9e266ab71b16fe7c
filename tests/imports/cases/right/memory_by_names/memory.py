import torch


class Memory:
    KEYS = "log_probs", "rewards"

    def __init__(self):
        self.log_probs, self.rewards = [], []

    def clear(self):
        for k in self.KEYS:
            getattr(self, k).clear()

    def loss(self):
        R, returns = 0, []
        for r in reversed(self.rewards):
            R = r + 0.99 * R
            returns.insert(0, R)
        return -(torch.stack(self.log_probs) * torch.tensor(returns)).sum()

    def __len__(self):
        return len(self.rewards)
