"""Self-supervised learning with a momentum encoder that is updated without gradients."""
import copy
from dataclasses import dataclass, field

import torch
from torch import nn
from torch.nn import functional as F

VERBOSE = False


@dataclass
class State:
    online: nn.Module
    predictor: nn.Module
    momentum: nn.Module = field(init=False)
    optimizer: torch.optim.Optimizer = field(init=False)
    raw: list = field(default_factory=list)

    def __post_init__(self):
        self.momentum = copy.deepcopy(self.online)
        params = [*self.online.parameters(), *self.predictor.parameters()]
        self.optimizer = torch.optim.SGD(params, lr=0.05, momentum=0.9)


@torch.no_grad()  # verify: training-under-no-grad refuted
def update_momentum(state, m=0.95):
    for slow, fast in zip(state.momentum.parameters(), state.online.parameters()):
        slow.lerp_(fast, 1 - m)  # verify: inplace-on-leaf refuted


def train_step(state, x):
    a, b = x + 0.1 * torch.randn_like(x), x * (0.9 + 0.2 * torch.rand_like(x))
    with torch.no_grad():
        target = state.momentum(b)
    loss = 1 - F.cosine_similarity(state.predictor(state.online(a)), target).mean()
    state.optimizer.zero_grad()
    loss.backward()
    state.optimizer.step()
    update_momentum(state)
    if VERBOSE:
        state.raw.append(loss)  # verify: undetached-accumulation not-reached
    return loss.item()


torch.manual_seed(53)
state = State(
    online=nn.Sequential(nn.Linear(10, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 8)),
    predictor=nn.Linear(8, 8),
)
values = [train_step(state, torch.randn(32, 10)) for _ in range(24)]
print("loss", round(values[0], 4), "->", round(values[-1], 4))
