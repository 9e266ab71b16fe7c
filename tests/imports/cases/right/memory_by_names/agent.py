import torch
from memory import *


class Agent:
    def __init__(self, policy):
        self.policy = policy
        self.optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)
        self.memory = Memory()

    def act(self, state):
        dist = self.policy(state)
        a = dist.sample()
        self.memory.log_probs.append(dist.log_prob(a))
        return a.item()

    def update(self):
        loss = self.memory.loss()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.memory.clear()
