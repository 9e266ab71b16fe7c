import torch


@torch.no_grad()
def spsa_into_grad(f, p, eps):
    """Simultaneous perturbation estimate of df/dp, put where an optimizer looks for it."""
    delta = torch.randint(0, 2, p.shape).float() * 2 - 1
    diff = (f(p + eps * delta) - f(p - eps * delta)) / (2 * eps)
    p.grad = diff * delta
