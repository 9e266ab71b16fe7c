from base import Forecaster
from torch import nn


class Linear(Forecaster):
    def build(self):
        return nn.Linear(4, 1)


class Deep(Forecaster):
    def build(self):
        return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))

    def shown(self, loss):
        return loss**0.5
