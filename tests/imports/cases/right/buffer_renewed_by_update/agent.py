import torch
from torch import nn
from torch.distributions import Categorical


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 2)

    def forward(self, x):
        return torch.softmax(self.layer(x), dim=1)


class Agent:
    def __init__(self, env, episodes=3):
        self.env = env
        self.episodes = episodes
        self.policy = Policy()
        self.optimizer = torch.optim.Adam(self.policy.parameters())
        self.log_probs = []

    def act(self, state):
        dist = Categorical(self.policy.forward(torch.as_tensor(state)))
        action = dist.sample()
        self.log_probs.append(dist.log_prob(action))
        return action.item()

    def update(self, returns):
        losses = []
        for log_prob, value in zip(self.log_probs, returns):
            losses.append(-log_prob * value)
        self.optimizer.zero_grad()
        loss = torch.cat(losses).sum()
        loss.backward()
        self.optimizer.step()
        self.log_probs = []

    def train(self):
        for _ in range(self.episodes):
            state = self.env.reset()
            done = False
            rewards = []
            while not done:
                action = self.act(state)
                state, reward, done = self.env.step(action)
                rewards.append(reward)
            self.update(torch.tensor(rewards))
