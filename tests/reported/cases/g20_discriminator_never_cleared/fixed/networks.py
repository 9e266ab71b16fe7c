import torch
from torch import nn


def mlp(*sizes):
    layers = []
    for a, b in zip(sizes, sizes[1:]):
        layers += [nn.Linear(a, b), nn.LeakyReLU(0.2)]
    return nn.Sequential(*layers[:-1])


class Bundle:
    def __init__(self, image=24, code=6):
        self.E = mlp(image, 32, code)
        self.D = mlp(image, 32, 1)
        self.G = mlp(code, 32, image)
        self.F = mlp(image, 16)
        for net in (self.G, self.F):
            net.requires_grad_(False)
