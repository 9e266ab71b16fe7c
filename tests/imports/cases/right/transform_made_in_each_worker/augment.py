import numpy as np
from torch.utils.data import get_worker_info


class Shift:
    def __init__(self, random_state, most=4):
        self.random_state = random_state
        self.most = most

    def __call__(self, row):
        return np.roll(row, int(self.random_state.randint(0, self.most)))


class Augmentation:
    def __init__(self, seed=47):
        self.seed, self.worker = seed, None
        self.restart(seed)

    def restart(self, seed):
        self.random_state = np.random.RandomState(seed)
        self.shift = Shift(self.random_state)

    def __call__(self, row):
        info = get_worker_info()
        if info is not None and info.seed != self.worker:
            self.worker = info.seed
            self.restart(info.seed % 2**32)
        return self.shift(row).astype(np.float32)
