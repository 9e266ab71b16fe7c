"""Correct code that resembles a policy loss that trains its critic, a memory without copies, or an exhausted loop."""

import random

import torch
from torch import nn
from torch.distributions import Categorical
from torch.optim.lr_scheduler import LambdaLR
from torch.utils.data import DataLoader, TensorDataset, WeightedRandomSampler

torch.manual_seed(0)
random.seed(0)
actor, critic, weigher = nn.Linear(3, 2), nn.Linear(3, 1), nn.Linear(3, 1)
optimizer = torch.optim.Adam([*actor.parameters(), *critic.parameters(), *weigher.parameters()], lr=1e-3)
memory, position = [], torch.zeros(3)
for step in range(12):
    position += torch.randn(3)
    memory.append(position.clone())
    frames = torch.stack([position] * 2 + memory[-4:])  # one state twice, beside others
    state = torch.stack(random.choices(memory, k=16)) + torch.randn(16, 3)
    policy, values = Categorical(logits=actor(state)), critic(state).squeeze(-1)
    action = policy.sample()
    gains = action - state[:, 0]
    policy_loss = -(policy.log_prob(action) * (gains - values.detach())).mean()
    soft = (policy.probs * (0.1 * policy.logits - values.detach().unsqueeze(-1))).sum(-1).mean()
    control = weigher(state).squeeze(-1)  # a control variate: trained by the policy loss, regressed by no other
    loss = policy_loss + soft + (gains - values).pow(2).mean() + (policy.log_prob(action) * (1 - control)).mean()
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(actor.parameters(), 1.0)
    optimizer.step()
    norm = nn.utils.clip_grad_norm_(critic.parameters(), float("inf"))  # measured afterwards, and accumulated below
    if step % 2:
        continue
    nn.functional.mse_loss(critic(state).squeeze(-1), gains).backward()


def batches(count):
    for _ in range(count):
        yield torch.randn(8, 3)


stream = batches(10)
for _ in range(3):  # one stream in parts, then a new one
    for number, batch in enumerate(stream):
        optimizer.zero_grad()
        critic(batch).pow(2).mean().backward()
        optimizer.step()
        nn.utils.clip_grad_norm_(critic.parameters(), float("inf"))  # measures
        if number == 2:
            break
for _ in range(2):
    fresh = batches(3)
    for batch in fresh:
        optimizer.zero_grad()
        critic(batch).pow(2).mean().backward()
        optimizer.step()

labels = (torch.arange(60) >= 40).long()
shares = (labels == 1).double()  # the samples of one class, on purpose
loader = DataLoader(TensorDataset(torch.randn(60, 3), labels), 20, sampler=WeightedRandomSampler(shares, 60))
head = torch.optim.SGD(critic.parameters(), lr=0.1)
thawed = torch.optim.SGD(actor.parameters(), lr=0.1)  # waits at a rate of zero while the other one trains
schedule = LambdaLR(thawed, lambda epoch: float(epoch > 1))
half = nn.Linear(3, 8).bfloat16()
coarse = torch.optim.SGD(half.parameters(), lr=0.5)
for _ in range(4):
    for batch, _ in loader:
        for one in (head, thawed, coarse):
            one.zero_grad()
        (critic(batch).pow(2).mean() + actor(batch).logsumexp(-1).mean()).backward()
        half(batch.bfloat16()).float().pow(2).mean().backward()
        for one in (head, thawed, coarse):
            one.step()
    schedule.step()
