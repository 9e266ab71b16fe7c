import torch
from torch import nn


class Features(nn.Module):
    def __init__(self, requires_grad=False):
        super().__init__()
        self.blocks = nn.ModuleList([nn.Linear(4, 8), nn.Linear(8, 3)])
        for parameter in self.parameters():
            parameter.requires_grad = requires_grad

    def forward(self, x):
        outputs = []
        for block in self.blocks:
            x = torch.relu(block(x))
            outputs.append(x)
        return outputs
