"""One-step actor-critic with separate networks on a toy continuous control task."""
from collections import deque

import torch
from torch import nn

GAMMA = 0.95


def env_step(state, action):
    nxt = 0.9 * state + 0.2 * action + 0.01 * torch.randn_like(state)
    return nxt, -(nxt ** 2).sum(dim=1)


def main():
    torch.manual_seed(12)
    actor = nn.Sequential(nn.Linear(3, 32), nn.Tanh(), nn.Linear(32, 3))
    critic = nn.Sequential(nn.Linear(3, 32), nn.Tanh(), nn.Linear(32, 1))
    actor_opt = torch.optim.Adam(actor.parameters(), lr=1e-3)
    critic_opt = torch.optim.Adam(critic.parameters(), lr=3e-3)
    recent = deque(maxlen=5)
    state = torch.randn(16, 3)

    for t in range(28):
        dist = torch.distributions.Normal(actor(state), 0.3)
        action = dist.sample()
        log_prob = dist.log_prob(action).sum(dim=1)
        next_state, reward = env_step(state, action)

        with torch.no_grad():
            target = reward + GAMMA * critic(next_state).squeeze(1)
        value = critic(state).squeeze(1)
        critic_loss = (value - target).pow(2).mean()
        actor_loss = -(log_prob * (target - value).detach()).mean()

        critic_loss.backward(retain_graph=True)  # verify: retain-graph-in-loop confirmed
        critic_opt.zero_grad()  # verify: cleared-before-step confirmed
        critic_opt.step()

        actor_opt.zero_grad()
        actor_loss.backward()
        actor_opt.step()

        recent.append(critic_loss)  # verify: undetached-accumulation refuted
        state = next_state if t % 7 else torch.randn(16, 3)
    print("recent critic loss", torch.stack(list(recent)).mean().item())


if __name__ == "__main__":
    main()
