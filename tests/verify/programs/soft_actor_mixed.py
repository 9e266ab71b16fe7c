"""Actor and critic on a shared encoder with a learned temperature, on a synthetic control task."""
import torch
from torch import nn
from torch.nn import functional as F

torch.set_num_threads(1)
torch.manual_seed(95)


class Agent:
    def __init__(self, obs=6, act=2):
        self.encoder = nn.Sequential(nn.Linear(obs, 24), nn.ELU())
        self.actor, self.critic = nn.Linear(24, act), nn.Linear(24, 1)
        self.log_alpha = torch.zeros((), requires_grad=True)
        self.critic_opt = torch.optim.Adam([*self.encoder.parameters(), *self.critic.parameters()], lr=3e-3)
        self.actor_opt = torch.optim.Adam(self.actor.parameters(), lr=1e-3)
        self.alpha_opt = torch.optim.Adam([self.log_alpha], lr=1e-2)

    def update(self, obs, action, reward):
        z = self.encoder(obs)
        value = self.critic(z).squeeze(-1)
        logits = self.actor(z)
        entropy = torch.distributions.Categorical(logits=logits).entropy()

        self.critic_opt.zero_grad()
        value_loss = F.mse_loss(value, reward)
        value_loss.backward(retain_graph=True)  # verify: retain-graph-in-loop refuted
        self.actor_opt.zero_grad()  # verify: cleared-before-step refuted
        alpha = self.log_alpha.detach().exp()
        logp = F.log_softmax(logits, -1).gather(1, action[:, None]).squeeze(1)
        policy_loss = -((reward - value.detach()) * logp + 0.1 * alpha * entropy).mean()
        policy_loss.backward()
        self.critic_opt.step()
        self.actor_opt.step()

        alpha_loss = (self.log_alpha * (entropy.detach() - 0.5)).mean()
        self.alpha_opt.zero_grad()
        self.alpha_opt.step()  # verify: step-without-backward confirmed
        return {"value": value_loss.item(), "policy": policy_loss.item(), "alpha": alpha_loss.item()}


def main():
    agent = Agent()
    for _ in range(12):
        obs = torch.randn(32, 6)
        action = torch.randint(0, 2, (32,))
        reward = (action == (obs[:, 0] > 0).long()).float()
        info = agent.update(obs, action, reward)
    print(info)


if __name__ == "__main__":
    main()
