import torch
import torch.nn as nn
from torch.distributions import Categorical

from gae import estimate_advantages


class Policy(nn.Module):
    def __init__(self, states, actions):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(states, 32), nn.Tanh(), nn.Linear(32, actions))

    def get_log_prob(self, states, actions):
        return Categorical(logits=self.net(states)).log_prob(actions)


class Value(nn.Module):
    def __init__(self, states):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(states, 32), nn.Tanh(), nn.Linear(32, 1))

    def forward(self, x):
        return self.net(x)


def ppo_step(policy, value, opt_p, opt_v, states, actions, returns, advantages, old_log_probs, eps):
    value_loss = nn.functional.mse_loss(value(states), returns)
    opt_v.zero_grad()
    value_loss.backward()
    opt_v.step()

    log_probs = policy.get_log_prob(states, actions)
    ratio = torch.exp(log_probs - old_log_probs)
    advantages = advantages.squeeze(1)
    surr1 = ratio * advantages
    surr2 = torch.clamp(ratio, 1 - eps, 1 + eps) * advantages
    policy_loss = -torch.min(surr1, surr2).mean()
    opt_p.zero_grad()
    policy_loss.backward()
    opt_p.step()


def main():
    policy, value = Policy(4, 2), Value(4)
    opt_p = torch.optim.Adam(policy.parameters(), lr=3e-4)
    opt_v = torch.optim.Adam(value.parameters(), lr=3e-4)
    for _ in range(10):
        states, actions = torch.randn(64, 4), torch.randint(0, 2, (64,))
        rewards, masks = torch.randn(64), torch.ones(64)
        with torch.no_grad():
            old = policy.get_log_prob(states, actions)
            advantages, returns = estimate_advantages(rewards, masks, value(states), 0.99, 0.95)
        for _ in range(4):
            ppo_step(policy, value, opt_p, opt_v, states, actions, returns, advantages, old, 0.2)


if __name__ == "__main__":
    main()
