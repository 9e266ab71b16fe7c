import copy
import torch
from torch import nn

class Average(nn.Module):
    def __init__(self, model, decay=0.9999, every=10):
        super().__init__()
        self.decay = decay
        self.every = every
        self.source = [model]
        self.average = copy.deepcopy(model)
        self.average.requires_grad_(False)
        self.weight_names = {name for name, p in self.average.named_parameters() if p.dtype.is_floating_point}
        self.statistic_names = {name for name, b in self.average.named_buffers() if b.dtype.is_floating_point}
        self.register_buffer("step", torch.tensor(0))

    def weights_of(self, model):
        for name, param in model.named_parameters():
            if name in self.weight_names:
                yield name, param

    def statistics_of(self, model):
        for name, buffer in model.named_buffers():
            if name in self.statistic_names:
                yield name, buffer

    @torch.no_grad()
    def update(self):
        self.step += 1
        if self.step % self.every != 0:
            return
        current = self.source[0]
        for (_, ours), (_, theirs) in zip(self.weights_of(self.average), self.weights_of(current)):
            ours.lerp_(theirs, 1.0 - self.decay)
        for (_, ours), (_, theirs) in zip(self.statistics_of(self.average), self.statistics_of(current)):
            ours.lerp_(theirs, 1.0 - self.decay)

    def forward(self, x):
        return self.average(x)
