"""Mixed precision with a loss scale, by trainers of one family that clip before or after the scale is taken out."""
import torch
from torch import nn
from torch.nn.utils import clip_grad_norm_

torch.set_num_threads(1)
torch.manual_seed(7)


class Trainer:
    kind = torch.optim.SGD

    def __init__(self):
        self.model = nn.Sequential(nn.Linear(6, 12), nn.Tanh(), nn.Linear(12, 1))
        self.optimizer = self.kind(self.model.parameters(), lr=1e-3)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=2.0**12, growth_interval=5)

    def backward(self):
        x = torch.randn(16, 6)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = (self.model(x).float() - 20).pow(2).mean()
        self.optimizer.zero_grad()
        self.scaler.scale(loss).backward()

    def step(self):
        self.scaler.step(self.optimizer)
        self.scaler.update()


class Scaled(Trainer):
    def train(self):
        self.backward()
        clip_grad_norm_(self.model.parameters(), 1.0)  # verify: clip-before-unscale confirmed
        self.step()


class Fused(Trainer):
    """The optimizer itself divides by the scale."""

    kind = staticmethod(lambda parameters, lr: torch.optim.Adam(parameters, lr=lr, fused=True))

    def train(self):
        self.backward()
        clip_grad_norm_(self.model.parameters(), 1.0)  # verify: clip-before-unscale confirmed
        self.step()


class Unscaled(Trainer):
    def train(self):
        self.backward()
        self.scaler.unscale_(self.optimizer)
        clip_grad_norm_(self.model.parameters(), 1.0)  # verify: clip-before-unscale refuted
        self.step()


class UnscaledFused(Fused):
    def train(self):
        self.backward()
        self.scaler.unscale_(self.optimizer)
        clip_grad_norm_(self.model.parameters(), 1.0)  # verify: clip-before-unscale refuted
        self.step()


class ByHelper(Trainer):
    """The scale is taken out by hand, in the bound."""

    def train(self):
        self.backward()
        bound = 1.0 * self.scaler.get_scale()
        clip_grad_norm_(self.model.parameters(), bound)  # verify: clip-before-unscale inconclusive
        self.step()


trainers = [kind() for kind in (Scaled, Fused, Unscaled, UnscaledFused, ByHelper)]
for step in range(8):
    for trainer in trainers:
        trainer.train()
print([sum(p.abs().sum().item() for p in trainer.model.parameters()) for trainer in trainers])
