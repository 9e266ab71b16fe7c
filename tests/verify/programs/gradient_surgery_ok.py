"""Two tasks whose conflicting gradients are projected onto each other before the step."""
import torch
from torch import nn

torch.manual_seed(44)

trunk = nn.Sequential(nn.Linear(10, 32), nn.ELU())
heads = nn.ModuleDict({"a": nn.Linear(32, 1), "b": nn.Linear(32, 1)})
optimizer = torch.optim.Adam([*trunk.parameters(), *heads.parameters()], lr=2e-3)
shared = list(trunk.parameters())


def flat_grad():
    return torch.cat([p.grad.flatten() for p in shared])


def write_grad(vector):
    offset = 0
    for p in shared:
        p.grad = vector[offset:offset + p.numel()].view_as(p).clone()
        offset += p.numel()


conflicts = 0
for step in range(30):
    x = torch.randn(32, 10)
    h = trunk(x)
    loss_a = (heads["a"](h).squeeze(1) - x.sum(dim=1)).abs().mean()
    loss_b = (heads["b"](h).squeeze(1) + x[:, 0]).pow(2).mean()

    optimizer.zero_grad()
    loss_a.backward(retain_graph=True)  # verify: retain-graph-in-loop refuted
    grad_a = flat_grad()
    head_a = [p.grad for p in heads["a"].parameters()]
    optimizer.zero_grad()  # verify: cleared-before-step refuted
    loss_b.backward()
    grad_b = flat_grad()

    dot = torch.dot(grad_a, grad_b)
    if dot < 0:
        conflicts += 1
        grad_a = grad_a - dot / grad_b.norm().square() * grad_b
    write_grad(grad_a + grad_b)
    for p, g in zip(heads["a"].parameters(), head_a):
        p.grad = g
    optimizer.step()
print(f"{conflicts} conflicts, losses {loss_a.item():.3f} and {loss_b.item():.3f}")
