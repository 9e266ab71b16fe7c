import torch


def soft_threshold(x, t):
    return torch.sign(x) * torch.clamp(x.abs() - t, min=0)


def shrink(x, t):
    """Proximal step of the lasso."""
    x.copy_(soft_threshold(x.detach(), t))
