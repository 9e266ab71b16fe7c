import torch.nn as nn
import torch
class AdaptedLinear(nn.Linear):
    def __init__(self, inp, out, r=8):
        super().__init__(inp, out)
        self.adapter_down = nn.Parameter(torch.randn(r, inp) * 0.01)
        self.adapter_up = nn.Parameter(torch.zeros(out, r))
    def forward(self, x):
        return super().forward(x) + x @ self.adapter_down.T @ self.adapter_up.T
def train_adapters_only(model):
    for n, p in model.named_parameters():
        p.requires_grad = "adapter_" in n
