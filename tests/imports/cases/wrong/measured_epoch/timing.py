import functools
import time
import torch


def measured(fn):
    """Result and seconds, for benchmarks of the forward pass."""
    @functools.wraps(fn)
    @torch.no_grad()
    def inner(*args, **kwargs):
        t = time.perf_counter()
        out = fn(*args, **kwargs)
        return out, time.perf_counter() - t
    return inner
