import torch
import torch.nn.functional as F


def bce(logits, t):
    return F.binary_cross_entropy_with_logits(logits, torch.full_like(logits, float(t)))


def set_requires_grad(nets, flag=False):
    if not isinstance(nets, (list, tuple)):
        nets = [nets]
    for net in nets:
        for p in net.parameters():
            p.requires_grad = flag
