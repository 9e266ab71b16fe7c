"""A policy loss that trains the critic, states that are stored without a copy, and loops that get nothing."""

import random
from collections import deque

import torch
from torch import nn
from torch.distributions import Normal

torch.manual_seed(0)
random.seed(0)


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.mean, self.value = nn.Linear(3, 8), nn.Linear(8, 1), nn.Linear(8, 1)

    def forward(self, state):
        hidden = torch.tanh(self.body(state))
        return Normal(self.mean(hidden), 1.0), self.value(hidden)


def normalized(gains, values):
    left = gains - values  # seen: undetached-advantage
    return (left - left.mean()) / (left.std() + 1e-6)


agent = Agent()
optimizer = torch.optim.Adam(agent.parameters(), lr=1e-3)
for _ in range(8):
    state = torch.randn(16, 3)
    policy, values = agent(state)
    action = policy.sample()
    gains = -(action - state[:, :1]).abs()
    ratio = (policy.log_prob(action) - policy.log_prob(action).detach()).exp()
    loss = -(ratio * normalized(gains, values)).mean() + nn.functional.mse_loss(values, gains)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


class Memory:
    def __init__(self):
        self.entries = deque(maxlen=100)

    def add(self, state, gain):
        self.entries.append((state, gain))  # seen: stored-without-copy

    def sample(self):
        states, gains = zip(*random.sample(self.entries, 8))
        return torch.stack(states), torch.tensor(gains)


critic = nn.Linear(3, 1)
second = torch.optim.SGD(critic.parameters(), lr=1e-3)
memory, position = Memory(), torch.zeros(3)
for step in range(40):
    position += 0.1 * torch.randn(3)
    memory.add(position, float(position.sum()))
    if step >= 16:
        states, gains = memory.sample()
        loss = nn.functional.mse_loss(critic(states).squeeze(-1), gains)
        second.zero_grad()
        loss.backward()
        second.step()


def batches(count):
    for _ in range(count):
        yield torch.randn(8, 3)


def epoch(source):
    for number, batch in enumerate(source):
        loss = critic(batch).pow(2).mean()
        second.zero_grad()
        loss.backward()
        second.step()


stream = batches(4)  # seen: exhausted-generator
for _ in range(4):
    epoch(stream)
