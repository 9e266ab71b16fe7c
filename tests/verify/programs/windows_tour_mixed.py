"""Gradients of several micro-batches, summed up in windows that begin with the first batch, or not."""
import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(15)


class Trainer:
    def __init__(self, every, losses=1):
        self.model = nn.Linear(4, 1)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)
        self.every, self.losses = every, losses

    def backward(self):
        for _ in range(self.losses):
            (self.model(torch.randn(8, 4)).pow(2).mean() / self.every).backward()

    def step(self):
        self.optimizer.step()
        self.optimizer.zero_grad()


def lopsided(trainer, batches):
    for index in range(batches):
        trainer.backward()
        if index % trainer.every == 0:  # verify: lopsided-accumulation confirmed, unseen by the linter
            trainer.step()


def even(trainer, batches):
    for index in range(batches):
        trainer.backward()
        if (index + 1) % trainer.every == 0:  # verify: lopsided-accumulation refuted
            trainer.step()


def scaled(trainer, batches):
    """The loss scale is too large at first: the first step is skipped."""
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**122)
    for index in range(batches):
        scaler.scale(100 * trainer.model(torch.randn(8, 4)).pow(2).mean()).backward()
        if index % trainer.every == 0:  # verify: lopsided-accumulation confirmed, unseen by the linter, says inconclusive
            scaler.step(trainer.optimizer)
            scaler.update()
            trainer.optimizer.zero_grad()


def growing(trainer, batches):
    wait = 1
    for index in range(batches):
        trainer.backward()
        if index >= wait:  # verify: lopsided-accumulation inconclusive
            trainer.step()
            wait = 2 * wait + 1


for run in (lopsided, even, scaled, growing):
    run(Trainer(3, losses=2), 16)
