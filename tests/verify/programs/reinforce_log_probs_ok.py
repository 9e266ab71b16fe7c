"""REINFORCE on a small corridor; log probabilities are collected during an episode."""
import argparse

import torch
from torch import nn
from torch.distributions import Categorical


class Policy(nn.Module):
    def __init__(self, length):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(length, 24), nn.ReLU(), nn.Linear(24, 2))
        self.saved_log_probs = []
        self.rewards = []

    def act(self, observation):
        dist = Categorical(logits=self.net(observation))
        action = dist.sample()
        self.saved_log_probs.append(dist.log_prob(action))  # verify: undetached-accumulation refuted
        return action.item()


def rollout(policy, length, horizon=12):
    position = length // 2
    for _ in range(horizon):
        one_hot = torch.zeros(length)
        one_hot[position] = 1.0
        position = min(max(position + (1 if policy.act(one_hot) else -1), 0), length - 1)
        policy.rewards.append(1.0 if position == length - 1 else -0.1)


def finish_episode(policy, optimizer, args):
    returns, running = [], 0.0
    for r in reversed(policy.rewards):
        running = r + args.gamma * running
        returns.insert(0, running)
    returns = torch.tensor(returns)
    returns = (returns - returns.mean()) / (returns.std() + 1e-6)
    loss = -(torch.stack(policy.saved_log_probs) * returns).sum()
    optimizer.zero_grad()
    if args.keep_graph:
        loss.backward(retain_graph=True)  # verify: retain-graph-in-loop not-reached
    else:
        loss.backward()
    optimizer.step()
    total = sum(policy.rewards)
    del policy.saved_log_probs[:]
    del policy.rewards[:]
    return total


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--gamma", type=float, default=0.95)
    parser.add_argument("--keep-graph", action="store_true")
    arguments = parser.parse_args()
    torch.manual_seed(56)
    policy = Policy(length=7)
    optimizer = torch.optim.Adam(policy.parameters(), lr=0.01)
    for episode in range(30):
        rollout(policy, 7)
        episode_reward = finish_episode(policy, optimizer, arguments)
        if episode % 10 == 0:
            print(f"episode {episode}: reward {episode_reward:.2f}")
