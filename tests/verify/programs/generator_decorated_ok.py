"""Streaming pseudo-labels from a decorated generator; a short queue holds the recent losses."""
from collections import deque

import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(12)


@torch.no_grad()  # verify: training-under-no-grad refuted
def pseudo_labelled(teacher, n):
    for _ in range(n):
        x = torch.randn(20, 8)
        yield x, teacher(x).softmax(-1)


class Recent:
    def __init__(self, size):
        self.size, self.q = size, deque()

    def push(self, value):
        self.q.append(value)  # verify: undetached-accumulation refuted
        while len(self.q) > self.size:
            self.q.popleft()

    def mean(self):
        return sum(self.q).item() / len(self.q)


def soft_ce(logits, target):
    return -(target * logits.log_softmax(-1)).sum(-1).mean()


def train():
    teacher = nn.Linear(8, 3)
    student = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 3))
    opt = torch.optim.NAdam(student.parameters(), lr=5e-3)
    recent = Recent(4)
    for k, (x, t) in enumerate(pseudo_labelled(teacher, 30)):
        loss = soft_ce(student(x), t)
        opt.zero_grad()
        loss.backward()
        opt.step()
        recent.push(loss)
        if k % 10 == 9:
            print(k, recent.mean())


if __name__ == "__main__":
    train()
