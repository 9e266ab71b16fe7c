"""REINFORCE on a one-dimensional random walk, with entropy bonus, episode by episode."""
import torch
from torch import nn
from torch.distributions import Bernoulli


class Agent:
    saved = []

    def __init__(self):
        self.net = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))

    def act(self, pos, goal):
        d = Bernoulli(logits=self.net(torch.tensor([pos, goal])))
        a = d.sample()
        Agent.saved.append((d.log_prob(a), d.entropy()))  # verify: undetached-accumulation refuted
        return 1.0 if a.item() else -1.0


def rollout(agent, horizon=12):
    pos, goal, rewards = 0.0, 1.0, []
    for _ in range(horizon):
        pos += 0.3 * agent.act(pos, goal)
        rewards.append(-abs(goal - pos))
    return rewards


def returns(rewards, gamma=0.95):
    out, acc = [], 0.0
    for r in reversed(rewards):
        acc = r + gamma * acc
        out.insert(0, acc)
    t = torch.tensor(out)
    return (t - t.mean()) / (t.std() + 1e-6)


def main():
    torch.set_num_threads(1)
    torch.manual_seed(7)
    agent = Agent()
    opt = torch.optim.Adam(agent.net.parameters(), lr=2e-2)
    for episode in range(24):
        rewards = rollout(agent)
        policy_loss = 0
        for (logp, ent), g in zip(Agent.saved, returns(rewards)):
            policy_loss = policy_loss - (logp * g + 0.01 * ent).sum()
        opt.zero_grad()
        policy_loss.backward()
        opt.step()
        del Agent.saved[:]
        if episode % 8 == 7:
            print(episode, sum(rewards))


if __name__ == "__main__":
    main()
