import numpy as np
import torch


class CriticOptimizer:
    def __init__(self, critic, lr=3e-4, gamma=0.95, sequence_length=8):
        self.critic = critic
        self.gamma = gamma
        self.sequence_length = sequence_length
        self.optimizer = torch.optim.Adam(critic.parameters(), lr=lr)
        self.memory_of = {}

    def values_of(self, obs, agent_id, done):
        if agent_id in self.memory_of:
            memory = self.memory_of[agent_id]
        else:
            memory = torch.zeros((1, 1, 2 * self.critic.memory_size))
        values, memory_out = self.critic.run(obs, memory, sequence_length=len(obs))
        if done:
            self.memory_of.pop(agent_id, None)
        else:
            self.memory_of[agent_id] = memory_out.detach()
        return values.detach().numpy()

    def returns(self, rewards, bootstrap):
        out, running = np.zeros_like(rewards), bootstrap
        for t in reversed(range(len(rewards))):
            out[t] = running = rewards[t] + self.gamma * running
        return torch.from_numpy(out)

    def update(self, obs, returns):
        n = len(obs) // self.sequence_length
        memories = torch.zeros((1, n, 2 * self.critic.memory_size))
        values, _ = self.critic.run(obs, memories, sequence_length=self.sequence_length)
        loss = (values - returns).pow(2).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()
