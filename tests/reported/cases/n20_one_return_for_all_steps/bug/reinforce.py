from collections import deque

import gymnasium as gym
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
from torch.distributions import Categorical


class Policy(nn.Module):
    def __init__(self, s_size=4, h_size=16, a_size=2):
        super().__init__()
        self.fc1 = nn.Linear(s_size, h_size)
        self.fc2 = nn.Linear(h_size, a_size)

    def forward(self, x):
        return F.softmax(self.fc2(F.relu(self.fc1(x))), dim=1)

    def act(self, state):
        probs = self.forward(torch.from_numpy(state).float().unsqueeze(0))
        m = Categorical(probs)
        action = m.sample()
        return action.item(), m.log_prob(action)


def reinforce(env, policy, optimizer, n_episodes=1000, max_t=1000, gamma=1.0):
    scores_deque = deque(maxlen=100)
    for i_episode in range(1, n_episodes + 1):
        saved_log_probs, rewards = [], []
        state, _ = env.reset()
        for _ in range(max_t):
            action, log_prob = policy.act(state)
            saved_log_probs.append(log_prob)
            state, reward, terminated, truncated, _ = env.step(action)
            rewards.append(reward)
            if terminated or truncated:
                break
        scores_deque.append(sum(rewards))
        discounts = [gamma**i for i in range(len(rewards))]
        R = sum(a * b for a, b in zip(discounts, rewards))
        policy_loss = []
        for log_prob in saved_log_probs:
            policy_loss.append(-log_prob * R)
        policy_loss = torch.cat(policy_loss).sum()
        optimizer.zero_grad()
        policy_loss.backward()
        optimizer.step()
        if i_episode % 100 == 0:
            print(i_episode, sum(scores_deque) / len(scores_deque))


if __name__ == "__main__":
    policy = Policy()
    reinforce(gym.make("CartPole-v1"), policy, optim.Adam(policy.parameters(), lr=1e-2))
