"""Adam, written out, on gradients that nobody clears."""

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

moments = [(torch.zeros_like(p), torch.zeros_like(p)) for p in student]


def update(step, lr=1e-3):
    with torch.no_grad():
        for p, (m, v) in zip(student, moments):
            m.mul_(0.9).add_(p.grad, alpha=0.1)
            v.mul_(0.999).addcmul_(p.grad, p.grad, value=0.001)
            p -= lr * (m / (1 - 0.9**step)) / ((v / (1 - 0.999**step)).sqrt() + 1e-8)


for step in range(1, 21):
    loss = consistency(student, [t.detach() for t in teacher])
    loss.backward()  # verify: missing-zero-grad confirmed
    update(step)
