from torch import nn


def build_loss(kind, ignore=-100):
    if kind == "nll":
        return nn.NLLLoss(ignore_index=ignore)
    if kind == "ce":
        return nn.CrossEntropyLoss(ignore_index=ignore)
    raise ValueError(kind)
