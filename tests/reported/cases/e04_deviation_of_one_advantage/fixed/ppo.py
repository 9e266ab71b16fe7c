import torch
from torch import nn
from torch.distributions import Categorical
from torch.nn import functional as F

from buffers import RolloutBuffer


class PPO:
    def __init__(self, env, n_steps=2048, batch_size=64, n_epochs=10, clip_range=0.2, ent_coef=0.0, vf_coef=0.5):
        self.env, self.n_steps, self.batch_size, self.n_epochs = env, n_steps, batch_size, n_epochs
        self.clip_range, self.ent_coef, self.vf_coef = clip_range, ent_coef, vf_coef
        self.actor = nn.Sequential(nn.Linear(env.obs_dim, 32), nn.Tanh(), nn.Linear(32, env.n_actions))
        self.critic = nn.Sequential(nn.Linear(env.obs_dim, 32), nn.Tanh(), nn.Linear(32, 1))
        self.parameters = [*self.actor.parameters(), *self.critic.parameters()]
        self.optimizer = torch.optim.Adam(self.parameters, lr=3e-4, eps=1e-5)
        self.rollout_buffer = RolloutBuffer(n_steps, env.obs_dim)

    @torch.no_grad()
    def collect_rollouts(self):
        self.rollout_buffer.reset()
        obs = self.env.reset()
        for _ in range(self.n_steps):
            distribution = Categorical(logits=self.actor(obs))
            action = distribution.sample()
            following, reward = self.env.step(action)
            self.rollout_buffer.add(obs, action, reward, self.critic(obs).squeeze(-1), distribution.log_prob(action))
            obs = following
        self.rollout_buffer.compute_returns_and_advantage(self.critic(obs).squeeze(-1))

    def train(self):
        buffer = self.rollout_buffer
        for epoch in range(self.n_epochs):
            for batch in buffer.get(self.batch_size):
                observations = buffer.observations[batch]
                distribution = Categorical(logits=self.actor(observations))
                advantages = buffer.advantages[batch]
                if len(advantages) > 1:
                    advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
                ratio = torch.exp(distribution.log_prob(buffer.actions[batch]) - buffer.log_probs[batch])
                clipped = torch.clamp(ratio, 1 - self.clip_range, 1 + self.clip_range)
                policy_loss = -torch.min(advantages * ratio, advantages * clipped).mean()
                value_loss = F.mse_loss(self.critic(observations).flatten(), buffer.returns[batch])
                entropy_loss = -distribution.entropy().mean()
                loss = policy_loss + self.ent_coef * entropy_loss + self.vf_coef * value_loss
                self.optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(self.parameters, 0.5)
                self.optimizer.step()
        return loss.item()

    def learn(self, iterations):
        for iteration in range(iterations):
            self.collect_rollouts()
            print(f"iteration {iteration} reward {self.rollout_buffer.rewards.mean():.3f} loss {self.train():.4f}")
        return self
