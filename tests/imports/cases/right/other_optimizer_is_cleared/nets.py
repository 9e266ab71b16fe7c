from torch import nn


def pair(width=16):
    gen = nn.Sequential(nn.Linear(2, width), nn.ReLU(), nn.Linear(width, 1))
    critic = nn.Sequential(nn.Linear(1, width), nn.ReLU(), nn.Linear(width, 1))
    return gen, critic
