import numpy as np


class Seedable:
    def __init__(self, seed=None, parent=None):
        self.children = []
        self.parent = parent
        if parent is not None:
            parent.children.append(self)
        self.seed(seed)

    def seed(self, seed):
        self.rng = self.parent.rng if self.parent is not None else np.random.default_rng(seed)
        for child in self.children:
            child.seed(seed)

    def adopt(self, child):
        child.parent = self
        self.children.append(child)
        child.seed(None)


class Impairment(Seedable):
    def __call__(self, signal):
        raise NotImplementedError


class AdditiveNoise(Impairment):
    def __init__(self, power_range=(0.1, 1.0), **kwargs):
        super().__init__(**kwargs)
        self.power_range = power_range

    def __call__(self, signal):
        power = self.rng.uniform(*self.power_range)
        return signal + np.sqrt(power) * self.rng.standard_normal(signal.shape)


class PhaseShift(Impairment):
    def __call__(self, signal):
        return np.roll(signal, self.rng.integers(len(signal)))
