import torch
from torch import nn


class Echo(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.cell = nn.LSTM(1, hidden, batch_first=True)
        self.out = nn.Linear(hidden, 1)

    def start(self, n):
        h = self.cell.hidden_size
        return torch.zeros(1, n, h), torch.zeros(1, n, h)

    def forward(self, x, state):
        h, state = self.cell(x, state)
        return self.out(h), state


def fresh(state):
    """The same numbers, another history."""
    if isinstance(state, torch.Tensor):
        return state.detach()
    return tuple(fresh(s) for s in state)
