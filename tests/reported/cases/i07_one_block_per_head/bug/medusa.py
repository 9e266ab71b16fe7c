import torch
import torch.nn as nn

class Residual(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear = nn.Linear(width, width)
        nn.init.zeros_(self.linear.weight)
        self.act = nn.SiLU()
    def forward(self, x):
        return x + self.act(self.linear(x))

def add_heads(model, count=4, depth=2):
    width = model.lm_head.weight.shape[-1]
    words = model.lm_head.weight.shape[0]
    model.heads = nn.ModuleList(
        [
            nn.Sequential(
                *([Residual(width)] * depth),
                nn.Linear(width, words, bias=False),
            )
            for _ in range(count)
        ]
    )
    for head in model.heads:
        head[-1].weight.data[:] = model.lm_head.weight.data[:]
    return model

def logits(model, hidden):
    return torch.stack([head(hidden) for head in model.heads], dim=0)
