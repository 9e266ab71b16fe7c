import functools

import torch
from torch import nn
from torch.nn import functional as F


def reduce_loss(loss, reduction):
    return {"none": lambda x: x, "mean": torch.mean, "sum": torch.sum}[reduction](loss)


def weighted_loss(loss_func):
    @functools.wraps(loss_func)
    def wrapper(pred, target, weight=None, reduction="mean", avg_factor=None, **kwargs):
        loss = loss_func(pred, target, **kwargs)
        if weight is not None:
            loss = loss * weight
        if avg_factor is None:
            return reduce_loss(loss, reduction)
        return loss.sum() / avg_factor if reduction == "mean" else loss

    return wrapper


@weighted_loss
def knowledge_distillation_kl_div_loss(pred, soft_label, T, detach_target=True):
    assert pred.size() == soft_label.size()
    target = F.softmax(soft_label / T, dim=1)
    if detach_target:
        target = target.detach()
    kd_loss = F.kl_div(F.log_softmax(pred / T, dim=1), target, reduction="none").mean(1) * (T * T)
    return kd_loss


class KnowledgeDistillationKLDivLoss(nn.Module):
    def __init__(self, reduction="mean", loss_weight=1.0, T=10):
        super().__init__()
        assert T >= 1
        self.reduction = reduction
        self.loss_weight = loss_weight
        self.T = T

    def forward(self, pred, soft_label, weight=None, avg_factor=None):
        return self.loss_weight * knowledge_distillation_kl_div_loss(
            pred, soft_label, weight, reduction=self.reduction, avg_factor=avg_factor, T=self.T)


def distribution_focal_loss(pred, label):
    left = label.long()
    right = left + 1
    return (F.cross_entropy(pred, left, reduction="none") * (right - label)
            + F.cross_entropy(pred, right, reduction="none") * (label - left)).mean()


LOSSES = {"KnowledgeDistillationKLDivLoss": KnowledgeDistillationKLDivLoss}


def build_loss(cfg):
    cfg = dict(cfg)
    return LOSSES[cfg.pop("type")](**cfg)
