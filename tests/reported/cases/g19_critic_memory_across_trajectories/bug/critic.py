import torch
from torch import nn


class RecurrentCritic(nn.Module):
    def __init__(self, obs=6, memory=16):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(obs, memory), nn.Tanh())
        self.lstm = nn.LSTM(memory, memory, batch_first=True)
        self.value = nn.Linear(memory, 1)
        self.memory_size = memory

    def run(self, obs, memories, sequence_length=1):
        x = self.encoder(obs).view(-1, sequence_length, self.memory_size)
        h0, c0 = memories.chunk(2, dim=-1)
        out, (h, c) = self.lstm(x, (h0.contiguous(), c0.contiguous()))
        return self.value(out).flatten(), torch.cat([h, c], dim=-1)
