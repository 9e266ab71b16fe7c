"""A regression trained by turns that clip at different places: some before the backward, some behind the step."""
import torch
from torch import nn
from torch.nn.utils import clip_grad_norm_, clip_grad_value_
from torch.nn.utils.clip_grad import clip_grad_norm_ as clip

torch.set_num_threads(1)
torch.manual_seed(6)


class Trainer:
    """Accumulates two micro-batches a step."""

    def __init__(self, model):
        self.model = model
        self.optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)

    def loss(self):
        x = torch.randn(16, 5)
        return (self.model(x) - 30 * x.sum(1, keepdim=True)).pow(2).mean()

    def right(self):
        self.optimizer.zero_grad()
        for _ in range(2):
            self.loss().backward()
            clip_grad_norm_(self.model.parameters(), max_norm=1.0)  # verify: clip-outside-step refuted
        self.optimizer.step()

    def before(self):
        self.optimizer.zero_grad()
        clip(self.model.parameters(), 1.0)  # verify: clip-outside-step confirmed
        self.loss().backward()
        self.optimizer.step()

    def behind(self):
        self.optimizer.zero_grad()
        self.loss().backward()
        self.optimizer.step()
        clip_grad_value_(self.model.parameters(), 0.5)  # verify: clip-outside-step confirmed

    def old_ones(self):
        """Clips what the last step has used, and then clears it."""
        clip_grad_norm_(list(self.model.parameters()), 1.0)  # verify: clip-outside-step confirmed
        self.optimizer.zero_grad()
        self.loss().backward()
        self.optimizer.step()

    def closure(self):
        def evaluate():
            self.optimizer.zero_grad()
            loss = self.loss()
            loss.backward()
            clip_grad_norm_(self.model.parameters(), 2.0)  # verify: clip-outside-step inconclusive
            return loss

        self.optimizer.step(evaluate)

    def behind_closure(self):
        def evaluate():
            self.optimizer.zero_grad()
            loss = self.loss()
            loss.backward()
            return loss

        self.optimizer.step(evaluate)
        clip_grad_norm_(self.model.parameters(), 1.0)  # verify: clip-outside-step confirmed, says inconclusive

    def measured(self):
        self.optimizer.zero_grad()
        self.loss().backward()
        norm = clip_grad_norm_(self.model.parameters(), float("inf"))  # verify: clip-outside-step inconclusive
        clip_grad_norm_(self.model.parameters(), 1e9)  # verify: clip-outside-step refuted, says inconclusive
        self.optimizer.step()
        return norm


class TwoParts:
    """One clipping for both halves of a model, whose optimizers step one after the other."""

    def __init__(self):
        self.body, self.head = nn.Linear(5, 8), nn.Linear(8, 1)
        self.slow = torch.optim.SGD(self.body.parameters(), lr=1e-5)
        self.fast = torch.optim.Adam(self.head.parameters(), lr=1e-3)

    def step(self):
        x = torch.randn(16, 5)
        loss = (self.head(self.body(x).relu()) - 50).pow(2).mean()
        self.slow.zero_grad()
        self.fast.zero_grad()
        loss.backward()
        clip_grad_norm_([*self.body.parameters(), *self.head.parameters()], 0.1)  # verify: clip-outside-step refuted
        self.slow.step()
        self.fast.step()


turns = [Trainer(nn.Linear(5, 1)) for _ in range(7)]
parts = TwoParts()
for _ in range(4):
    for trainer, turn in zip(turns, ("right", "before", "behind", "old_ones", "closure", "behind_closure", "measured")):
        getattr(trainer, turn)()
    parts.step()
