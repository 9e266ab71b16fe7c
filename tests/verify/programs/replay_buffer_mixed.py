"""Actor with a replay buffer of transitions on a toy contextual bandit."""
import random
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import nn

random.seed(0)
torch.set_num_threads(1)
torch.manual_seed(0)


class Transition(NamedTuple):
    obs: torch.Tensor
    logp: torch.Tensor
    reward: float


@dataclass
class Debug:
    anomaly: bool = False


@dataclass
class Args:
    steps: int = 36
    capacity: int = 1000
    debug: Debug = field(default_factory=Debug)


class Buffer:
    def __init__(self, capacity):
        self.capacity, self.items = capacity, []

    def add(self, tr):
        self.items.append(tr)  # verify: undetached-accumulation confirmed, unseen by the linter
        if len(self.items) > self.capacity:
            self.items.pop(0)


def main(args=Args()):
    torch.autograd.set_detect_anomaly(args.debug.anomaly)  # verify: anomaly-detection-left-on refuted
    policy = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 3))
    opt = torch.optim.Adam(policy.parameters(), 1e-2)
    buf, baseline = Buffer(args.capacity), 0.0
    for _ in range(args.steps):
        obs = torch.randn(4)
        dist = torch.distributions.Categorical(logits=policy(obs))
        action = dist.sample()
        reward = float(action.item() == int(obs[0] > 0))
        buf.add(Transition(obs, dist.log_prob(action), reward))
        tr = random.choice(buf.items)
        fresh = torch.distributions.Categorical(logits=policy(tr.obs))
        loss = -(tr.reward - baseline) * fresh.log_prob(action)
        loss.backward()
        opt.zero_grad()  # verify: cleared-before-step confirmed
        opt.step()
        baseline = 0.9 * baseline + 0.1 * reward
    print("baseline", baseline, "kept", len(buf.items), buf.items[-1].logp.item())


main()
