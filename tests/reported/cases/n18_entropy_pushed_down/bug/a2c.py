import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.distributions import Normal


class Actor(nn.Module):
    def __init__(self, in_dim, out_dim):
        super().__init__()
        self.hidden = nn.Linear(in_dim, 64)
        self.mu = nn.Linear(64, out_dim)
        self.log_std = nn.Linear(64, out_dim)

    def forward(self, state):
        x = F.relu(self.hidden(state))
        mu = torch.tanh(self.mu(x)) * 2
        std = torch.exp(F.softplus(self.log_std(x)))
        dist = Normal(mu, std)
        return dist.sample(), dist


class Critic(nn.Module):
    def __init__(self, in_dim):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(in_dim, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, state):
        return self.net(state)


class A2CAgent:
    def __init__(self, gamma=0.9, entropy_weight=1e-2):
        self.gamma = gamma
        self.entropy_weight = entropy_weight
        self.actor, self.critic = Actor(3, 1), Critic(3)
        self.actor_optimizer = torch.optim.Adam(self.actor.parameters(), lr=1e-4)
        self.critic_optimizer = torch.optim.Adam(self.critic.parameters(), lr=1e-3)

    def update_model(self, state, next_state, reward, done):
        action, dist = self.actor(state)
        log_prob = dist.log_prob(action).sum(dim=-1, keepdim=True)
        mask = 1 - done
        pred_value = self.critic(state)
        targ_value = reward + self.gamma * self.critic(next_state) * mask
        value_loss = F.smooth_l1_loss(pred_value, targ_value.detach())
        self.critic_optimizer.zero_grad()
        value_loss.backward()
        self.critic_optimizer.step()

        advantage = (targ_value - pred_value).detach()
        policy_loss = (-advantage * log_prob).mean()
        policy_loss += self.entropy_weight * dist.entropy().mean()
        self.actor_optimizer.zero_grad()
        policy_loss.backward()
        self.actor_optimizer.step()
        return policy_loss.item(), value_loss.item()


if __name__ == "__main__":
    agent = A2CAgent()
    for _ in range(20):
        print(agent.update_model(torch.randn(8, 3), torch.randn(8, 3), torch.randn(8, 1), torch.zeros(8, 1)))
