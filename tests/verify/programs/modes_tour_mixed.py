"""Classifiers that are validated now and then: some are put back into training mode, some are not, some need not be."""
import copy

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

torch.set_num_threads(1)
torch.manual_seed(10)


class Noisy(nn.Module):
    """Its layers look at the mode by themselves."""

    def __init__(self):
        super().__init__()
        self.body = nn.Linear(6, 8)
        self.head = nn.Linear(8, 3)

    def forward(self, x):
        h = checkpoint(self.block, x, use_reentrant=False)
        return self.head(F.dropout(h, 0.5))  # verify: dropout-ignores-mode confirmed

    def block(self, x):
        return F.dropout(self.body(x), 0.2, self.training)  # verify: dropout-ignores-mode refuted


class Guarded(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(6, 3)

    def forward(self, x):
        if self.training:
            x = F.dropout(x, 0.5)  # verify: dropout-ignores-mode inconclusive
        return F.dropout(self.layer(x), p=0.0)  # verify: dropout-ignores-mode refuted


def normed():
    return nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))


def plain():
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))


class Trainer:
    def __init__(self, model):
        self.model = model
        self.average = copy.deepcopy(model)
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.05)

    def train(self):
        for _ in range(2):
            loss = F.cross_entropy(self.model(torch.randn(16, 6)), torch.randint(3, (16,)))
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()

    @torch.no_grad()
    def right(self):
        self.model.eval()  # verify: training-in-eval-mode refuted
        found = self.model(torch.randn(4, 6)).argmax(1)  # verify: evaluation-with-grad refuted
        self.model.train()
        return found

    def wrong(self):
        self.model.eval()  # verify: training-in-eval-mode confirmed, unseen by the linter
        return self.model(torch.randn(4, 6)).argmax(1)  # verify: evaluation-with-grad confirmed, unseen by the linter

    @torch.no_grad()
    def custom(self):
        self.model.eval()  # verify: training-in-eval-mode confirmed, unseen by the linter
        return self.model(torch.randn(4, 6)).argmax(1)

    def harmless(self):
        self.model.eval()  # verify: training-in-eval-mode refuted
        with torch.inference_mode():
            return self.model(torch.randn(4, 6)).argmax(1)  # verify: evaluation-with-grad refuted

    def averaged(self):
        self.average.eval()  # verify: training-in-eval-mode inconclusive
        for parameter in self.average.parameters():
            parameter.requires_grad_(False)
        return self.average(torch.randn(4, 6))  # verify: evaluation-with-grad refuted


trainers = [Trainer(kind()) for kind in (normed, normed, Noisy, plain, normed)]
guarded = Trainer(Guarded())
noisy = Noisy().eval()
for epoch in range(4):
    for trainer, evaluate in zip(trainers, ("right", "wrong", "custom", "harmless", "averaged")):
        trainer.train()
        getattr(trainer, evaluate)()
    guarded.model(torch.randn(4, 6))
    with torch.no_grad():
        print(noisy(torch.ones(2, 6)).sum().item(), guarded.model.eval()(torch.ones(2, 6)).sum().item())
    guarded.model.train()
