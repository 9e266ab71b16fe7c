import torch

from sac import SACContinuous


def replay(count=2000, state_dim=24, action_dim=4):
    generator = torch.Generator().manual_seed(1)
    states = torch.randn(count, state_dim, generator=generator)
    actions = torch.rand(count, action_dim, generator=generator) * 2 - 1
    rewards = (states[:, :action_dim] * actions).sum(dim=1, keepdim=True)
    dones = (torch.rand(count, 1, generator=generator) < 0.05).float()
    return states, actions, rewards, states.roll(-1, 0), dones


def main(batch_size=64, updates=100):
    torch.manual_seed(0)
    memory = replay()
    agent = SACContinuous(24, 64, 4, action_bound=1.0)
    for update in range(updates):
        index = torch.randint(0, 2000, (batch_size,))
        loss, target_size, entropy = agent.update(*(part[index] for part in memory))
        if update % 25 == 24:
            print(f"update {update + 1} critic loss {loss:.4f} td target {target_size} entropy {entropy.mean():.3f}")


if __name__ == "__main__":
    main()
