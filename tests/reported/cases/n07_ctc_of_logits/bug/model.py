import torch
from torch import nn


class Aligner(nn.Module):
    def __init__(self, n_mels=40, n_phones=60, hidden=64):
        super().__init__()
        self.rnn = nn.GRU(n_mels, hidden, batch_first=True, bidirectional=True)
        self.ph_out = nn.Linear(2 * hidden, n_phones)
        self.bd_out = nn.Linear(2 * hidden, 1)

    def forward(self, mel):
        h, _ = self.rnn(mel)
        return {"ph_frame_logits": self.ph_out(h), "bd_logits": self.bd_out(h).squeeze(-1)}
