import torch


@torch.no_grad()
def blend_(a, b, keep):
    """a <- keep * a + (1 - keep) * b"""
    a *= keep
    a += (1 - keep) * b
