import torch
import torch.nn.functional as F


def reparametrize_gaussian(mu, logvar):
    noise = torch.randn_like(mu)
    return mu + (noise * logvar.exp())


def kl_gaussian(mu, logvar):
    return -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp(), dim=1)


def reconstruction(x, logits):
    return F.binary_cross_entropy_with_logits(logits, x, reduction="none").sum(1)
