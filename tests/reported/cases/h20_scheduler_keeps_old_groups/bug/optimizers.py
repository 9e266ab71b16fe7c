from dataclasses import dataclass
from typing import Any

import torch

REGISTRY = {}


def register(kind, name):
    def decorator(obj):
        REGISTRY[kind, name] = obj
        return obj

    return decorator


def construct(kind, config, **kwargs):
    config = dict(config)
    return REGISTRY[kind, config.pop("name")](**config, **kwargs)


@register("optimizer", "adam")
def adam(params, lr):
    return torch.optim.Adam(params, lr=lr)


@register("lr_scheduler", "warmup_polynomial")
@dataclass
class WarmupPolynomialLRScheduler:
    param_groups: Any
    num_warmup_steps: int
    start_lr: float
    end_lr: float
    decay_steps: int
    power: float

    def update_lr(self, current_step):
        if current_step < self.num_warmup_steps:
            warmup_frac_done = current_step / self.num_warmup_steps
            new_lr = self.start_lr * warmup_frac_done
        else:
            new_lr = (self.start_lr - self.end_lr) * (
                1 - (current_step - self.num_warmup_steps) / self.decay_steps
            ) ** self.power + self.end_lr
        for param_group in self.param_groups:
            param_group["lr"] = new_lr
