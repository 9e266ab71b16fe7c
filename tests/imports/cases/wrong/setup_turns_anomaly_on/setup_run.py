import random
import torch


def setup(seed):
    random.seed(seed)
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    torch.autograd.set_detect_anomaly(True)
