import numpy as np


class Shift:
    def __init__(self, random_state, most=4):
        self.random_state = random_state
        self.most = most

    def __call__(self, row):
        return np.roll(row, int(self.random_state.randint(0, self.most)))


class Augmentation:
    def __init__(self, seed=47):
        self.restart(seed)

    def restart(self, seed):
        self.random_state = np.random.RandomState(seed)
        self.shift = Shift(self.random_state)

    def __call__(self, row):
        return self.shift(row).astype(np.float32)
