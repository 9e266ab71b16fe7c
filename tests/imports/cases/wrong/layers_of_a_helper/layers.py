from torch import nn


def make_stack(width, depth):
    return [nn.Linear(width, width) for _ in range(depth)]
