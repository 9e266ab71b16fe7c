"""Evolution strategies: the gradient is estimated from perturbed copies and handed to Adam."""
import torch
from torch import nn

torch.manual_seed(47)

policy = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 2))
optimizer = torch.optim.Adam(policy.parameters(), lr=0.02)
SIGMA, POPULATION = 0.1, 12


def episode_return(net):
    state = torch.full((1, 3), 0.5)
    total = 0.0
    for _ in range(6):
        action = net(state)
        state = 0.8 * state
        state[:, :2] += 0.3 * action
        total -= state.square().sum().item()
    return total


@torch.no_grad()
def estimate_gradient(net):
    base = [p.clone() for p in net.parameters()]
    estimate = [torch.zeros_like(p) for p in base]
    for _ in range(POPULATION):
        noise = [torch.randn_like(p) for p in base]
        returns = []
        for sign in (1.0, -1.0):
            for p, b, n in zip(net.parameters(), base, noise):
                p.copy_(b + sign * SIGMA * n)  # verify: inplace-on-leaf refuted
            returns.append(episode_return(net))
        for e, n in zip(estimate, noise):
            e.add_(n, alpha=(returns[0] - returns[1]) / (2 * SIGMA * POPULATION))
    for p, b, e in zip(net.parameters(), base, estimate):
        p.copy_(b)
        p.grad = -e


for generation in range(16):
    estimate_gradient(policy)
    optimizer.step()  # verify: step-without-backward refuted
    if generation % 4 == 0:
        with torch.no_grad():
            print(f"generation {generation}: return {episode_return(policy):.4f}")
