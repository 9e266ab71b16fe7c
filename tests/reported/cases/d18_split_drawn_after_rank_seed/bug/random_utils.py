import random

import numpy as np
import torch


def set_seed(seed, rank=0):
    seed = seed + rank * 12345
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
