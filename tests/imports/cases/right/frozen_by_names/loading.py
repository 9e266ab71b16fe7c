import torch


def freeze(m, names):
    for n in names:
        for p in getattr(m, n).parameters():
            p.requires_grad = False
