import torch
import torch.nn.functional as F
from torch import nn


class AgentQ(nn.Module):
    def __init__(self, obs_dim, n_actions, hidden=16):
        super().__init__()
        self.fc1 = nn.Linear(obs_dim, hidden)
        self.fc2 = nn.Linear(hidden, n_actions)

    def forward(self, obs):
        return self.fc2(F.relu(self.fc1(obs)))


class Mixer(nn.Module):
    def __init__(self, n_agents, state_dim, hidden=8):
        super().__init__()
        self.w1 = nn.Linear(state_dim, n_agents * hidden)
        self.b1 = nn.Linear(state_dim, hidden)
        self.w2 = nn.Linear(state_dim, hidden)
        self.b2 = nn.Linear(state_dim, 1)
        self.n_agents, self.hidden = n_agents, hidden

    def forward(self, q, state):
        w1 = self.w1(state).abs().view(-1, self.n_agents, self.hidden)
        h = F.elu(torch.bmm(q.unsqueeze(1), w1).squeeze(1) + self.b1(state))
        return (h * self.w2(state).abs()).sum(1, keepdim=True) + self.b2(state)
