import torch
import torch.nn.functional as F


def span_loss(logits, labels, mask):
    loss = F.binary_cross_entropy_with_logits(logits, labels, reduction="none")
    return (loss * mask).sum() / mask.sum().clamp(min=1)


def pair_consistency_loss(pair_logits, marginal_logits, owners, mask):
    probabilities = torch.sigmoid(pair_logits)
    probabilities = probabilities * mask.to(probabilities.dtype)
    survival = torch.log1p(-probabilities.clamp(max=1.0 - 1e-6))
    total = survival.new_zeros(marginal_logits.shape).scatter_add_(1, owners, survival)
    expected = 1.0 - torch.exp(total)
    return F.mse_loss(torch.sigmoid(marginal_logits), expected)
