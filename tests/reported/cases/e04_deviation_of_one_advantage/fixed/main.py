import torch

from ppo import PPO


class SignEnv:
    obs_dim, n_actions = 4, 2

    def reset(self):
        self.obs = torch.randn(self.obs_dim)
        return self.obs

    def step(self, action):
        reward = float((self.obs.sum() > 0).long() == action)
        self.obs = torch.randn(self.obs_dim)
        return self.obs, reward


if __name__ == "__main__":
    torch.manual_seed(0)
    agent = PPO(SignEnv(), n_steps=129, batch_size=32, n_epochs=3).learn(2)
    print("actor finite:", torch.isfinite(agent.actor[0].weight).all().item())
