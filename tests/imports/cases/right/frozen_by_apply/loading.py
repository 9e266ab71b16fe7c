import torch


def off(m):
    for p in m.parameters():
        p.requires_grad = False
