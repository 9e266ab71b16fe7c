import random

import numpy as np
import torch


def worker_init_fn(worker_id, rank):
    worker_seed = rank + torch.initial_seed() % 2**32
    random.seed(worker_seed)
    np.random.seed(worker_seed)
    torch.manual_seed(worker_seed)
