"""Q-learning with a replay memory and a slowly moving target network."""
import copy
import random
from collections import deque

import torch
from torch import nn


class Agent:
    def __init__(self, tau=0.05, gamma=0.9):
        self.q = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 3))
        self.q_target = copy.deepcopy(self.q)
        self.optimizer = torch.optim.Adam(self.q.parameters(), lr=1e-3)
        self.memory = deque(maxlen=500)
        self.recent = deque(maxlen=5)
        self.tau, self.gamma = tau, gamma

    def act(self, state, eps=0.2):
        if random.random() < eps:
            return random.randrange(3)
        with torch.no_grad():
            return self.q(state).argmax().item()

    def learn(self, batch_size=16):
        s, a, r, s2 = zip(*random.sample(self.memory, batch_size))
        s, s2 = torch.stack(s), torch.stack(s2)
        a, r = torch.tensor(a), torch.tensor(r)
        with torch.no_grad():  # verify: training-under-no-grad refuted
            target = r + self.gamma * self.q_target(s2).max(dim=1).values
        value = self.q(s).gather(1, a.unsqueeze(1)).squeeze(1)
        loss = nn.functional.smooth_l1_loss(value, target)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.recent.append(loss)  # verify: undetached-accumulation refuted
        with torch.no_grad():
            for tp, p in zip(self.q_target.parameters(), self.q.parameters()):
                tp.mul_(1 - self.tau).add_(p, alpha=self.tau)  # verify: inplace-on-leaf refuted


if __name__ == "__main__":
    random.seed(0)
    torch.manual_seed(52)
    agent = Agent()
    state = torch.randn(4)
    for t in range(80):
        action = agent.act(state)
        following = 0.9 * state + 0.1 * torch.randn(4)
        following[action] -= 0.1
        agent.memory.append((state, action, -following.abs().sum().item(), following))
        state = following
        if t >= 40:
            agent.learn()
    print("recent loss", torch.stack(tuple(agent.recent)).mean().item())
