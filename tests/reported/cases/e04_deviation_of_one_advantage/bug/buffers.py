import torch


class RolloutBuffer:
    def __init__(self, buffer_size, obs_dim, gamma=0.99, gae_lambda=0.95):
        self.buffer_size, self.obs_dim = buffer_size, obs_dim
        self.gamma, self.gae_lambda = gamma, gae_lambda
        self.reset()

    def reset(self):
        self.pos = 0
        self.observations = torch.zeros(self.buffer_size, self.obs_dim)
        self.actions = torch.zeros(self.buffer_size, dtype=torch.long)
        self.rewards, self.values = torch.zeros(self.buffer_size), torch.zeros(self.buffer_size)
        self.log_probs, self.advantages = torch.zeros(self.buffer_size), torch.zeros(self.buffer_size)

    def add(self, obs, action, reward, value, log_prob):
        self.observations[self.pos], self.actions[self.pos] = obs, action
        self.rewards[self.pos], self.values[self.pos] = reward, value
        self.log_probs[self.pos] = log_prob
        self.pos += 1

    def compute_returns_and_advantage(self, last_value):
        last = 0.0
        for step in reversed(range(self.buffer_size)):
            following = last_value if step == self.buffer_size - 1 else self.values[step + 1]
            delta = self.rewards[step] + self.gamma * following - self.values[step]
            last = delta + self.gamma * self.gae_lambda * last
            self.advantages[step] = last
        self.returns = self.advantages + self.values

    def get(self, batch_size):
        indices = torch.randperm(self.buffer_size)
        for start in range(0, self.buffer_size, batch_size):
            yield indices[start:start + batch_size]
