import torch

from policy import QMixPolicy

CONF = dict(n_agents=3, obs_dim=5, state_dim=6, n_actions=4, lr=2e-3, gamma=0.95,
            max_norm=10, sync_every=20)


def sample(n=32):
    s = torch.randn(n, 6)
    o = torch.randn(n, 3, 5)
    u = torch.randint(4, (n, 3))
    r = (u == 1).float().mean(1, keepdim=True) + 0.1 * s[:, :1]
    return o, o + 0.1, s, s + 0.1, u, r, (torch.rand(n, 1) < 0.1).float()


def main(steps=101):
    torch.manual_seed(0)
    policy = QMixPolicy(CONF)
    for step in range(steps):
        loss = policy.learn(sample(), step)
        if step % 25 == 0:
            print(f"step {step} loss {loss:.4f}")
    return policy


if __name__ == "__main__":
    main()
