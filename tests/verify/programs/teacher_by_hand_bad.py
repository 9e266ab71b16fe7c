"""A student is stepped by hand on old gradients, and its teacher, which gets gradients as well, follows by an average."""

import torch

torch.manual_seed(0)


def weights():
    shapes = (5, 8), (8,), (8, 1)
    return [(torch.randn(*shape) / 3).requires_grad_() for shape in shapes]


def network(weights, x):
    return torch.tanh(x @ weights[0] + weights[1]) @ weights[2]


def consistency(student, teacher):
    x = torch.randn(32, 5)
    out, aim = network(student, x), network(teacher, x + 0.1 * torch.randn_like(x))
    return (out - x[:, :1]).pow(2).mean() + (out - aim).pow(2).mean()


student, teacher = weights(), weights()

for _ in range(20):
    loss = consistency(student, teacher)
    loss.backward()  # verify: missing-zero-grad confirmed
    with torch.no_grad():
        for p in student:
            p -= 0.01 * p.grad
    for t, s in zip(teacher, student):
        t.data.lerp_(s.data, 0.1)
