import torch
import torch.nn as nn
from core import mlp, gru

class Synthesizer(nn.Module):
    def __init__(self, width, tones, bands):
        super().__init__()
        self.inputs = nn.ModuleList([mlp(1, width, 3) for _ in range(2)])
        self.gru = gru(2, width)
        self.mixer = mlp(width + 2, width, 3)
        self.outputs = nn.ModuleList([nn.Linear(width, tones + 1), nn.Linear(width, bands)])
    def forward(self, pitch, volume):
        hidden = torch.cat([self.inputs[0](pitch), self.inputs[1](volume)], -1)
        hidden = torch.cat([self.gru(hidden)[0], pitch, volume], -1)
        hidden = self.mixer(hidden)
        return self.outputs[0](hidden), self.outputs[1](hidden)
