import torch
from torch import nn
from torch.distributions import Categorical


class Reinforce:
    def __init__(self):
        self.policy = nn.Linear(4, 2)
        self.optimizer = torch.optim.Adam(self.policy.parameters(), lr=0.01)

    def learn(self, states, actions, returns):
        logps = Categorical(logits=self.policy(states)).log_prob(actions)
        loss = -(logps * returns).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss
