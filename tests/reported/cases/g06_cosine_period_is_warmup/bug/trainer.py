import torch
import torch.nn.functional as F
from torch import nn
from torch.optim import Adam
from torch.optim.lr_scheduler import CosineAnnealingLR, LambdaLR


def given(val):
    return val is not None


def per_stage(val, length):
    return val if isinstance(val, tuple) else (val,) * length


class CascadeTrainer(nn.Module):
    def __init__(self, stages, lr=1e-4, beta1=0.9, beta2=0.99, eps=1e-8,
                 warmup=None, decay_steps=None):
        super().__init__()
        self.stages = nn.ModuleList(stages)
        self.num_stages = len(stages)
        lr, eps, warmup, decay_steps = (
            per_stage(v, self.num_stages) for v in (lr, eps, warmup, decay_steps))
        self.warmups = warmup
        groups = zip(self.stages, lr, eps, warmup, decay_steps)
        for i, (stage, stage_lr, stage_eps, stage_warmup, stage_decay) in enumerate(groups):
            optimizer = Adam(stage.parameters(), lr=stage_lr, eps=stage_eps, betas=(beta1, beta2))
            scheduler = None
            if given(stage_decay):
                scheduler = CosineAnnealingLR(optimizer, T_max=stage_warmup)
            elif given(stage_warmup):
                scheduler = LambdaLR(optimizer, lr_lambda=lambda step: min(1.0, (step + 1) / self.warmups[0]))
            setattr(self, f"optim{i}", optimizer)
            setattr(self, f"scheduler{i}", scheduler)

    def rate_of(self, number):
        return getattr(self, f"optim{number - 1}").param_groups[0]["lr"]

    def forward(self, noisy, noise, number):
        return F.mse_loss(self.stages[number - 1](noisy), noise)

    def update(self, number, max_grad_norm=1.0):
        stage = self.stages[number - 1]
        optimizer = getattr(self, f"optim{number - 1}")
        scheduler = getattr(self, f"scheduler{number - 1}")
        nn.utils.clip_grad_norm_(stage.parameters(), max_grad_norm)
        optimizer.step()
        optimizer.zero_grad()
        if given(scheduler):
            scheduler.step()
