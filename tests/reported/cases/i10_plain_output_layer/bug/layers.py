import torch
import torch.nn as nn
import torch.nn.functional as F
class FinalLinear:
    def __init__(self, hidden, vocab, bias=True):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(vocab, hidden))
        nn.init.normal_(self.weight, std=0.02)
        self.bias = nn.Parameter(torch.zeros(vocab)) if bias else None
    def forward(self, x):
        return F.linear(x, self.weight, self.bias)
    __call__ = forward
