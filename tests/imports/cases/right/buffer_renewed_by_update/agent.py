import torch
from torch import nn
from torch.distributions import Categorical


class Agent:
    def __init__(self, episodes=3):
        self.episodes = episodes
        self.policy = nn.Linear(3, 2)
        self.optimizer = torch.optim.Adam(self.policy.parameters())
        self.log_probs = []

    def act(self, state):
        dist = Categorical(logits=self.policy.forward(state))
        action = dist.sample()
        self.log_probs.append(dist.log_prob(action))
        return action.item()

    def update(self):
        losses = []
        returns = torch.ones(len(self.log_probs))
        for log_prob, value in zip(self.log_probs, returns):
            losses.append(-log_prob * value)
        self.optimizer.zero_grad()
        loss = torch.cat(losses).sum()
        loss.backward()
        self.optimizer.step()
        self.log_probs = []

    def train(self):
        for _ in range(self.episodes):
            steps = 0
            while steps < 5:
                self.act(torch.randn(1, 3))
                steps += 1
            self.update()
            if steps > 100:
                break
