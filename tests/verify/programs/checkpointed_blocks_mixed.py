"""Activation checkpointing on residual blocks, both flavours, optimizer steps run in hooks."""
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

torch.set_num_threads(1)
torch.manual_seed(92)


class Block(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(d, 2 * d), nn.Linear(2 * d, d)

    def forward(self, x):
        h = self.fc2(torch.relu(self.fc1(x)))
        h += x  # verify: inplace-on-saved-tensor refuted
        return h


class Stack(nn.Module):
    def __init__(self, d=8):
        super().__init__()
        self.stem = nn.Linear(4, d)
        self.blocks = nn.ModuleList([Block(d), Block(d)])
        self.out = nn.Linear(d, 1)

    def forward(self, x):
        h = self.stem(x)
        for i, blk in enumerate(self.blocks):
            h = checkpoint(blk, h, use_reentrant=bool(i % 2))
        return self.out(h)


def fuse_optimizer(model, lr):
    """Update each parameter as soon as its gradient is ready, then drop the gradient."""
    opts = {p: torch.optim.SGD([p], lr=lr) for p in model.parameters()}

    def hook(p):
        opts[p].step()
        opts[p].zero_grad()

    for p in opts:
        p.register_post_accumulate_grad_hook(hook)


model = Stack()
fuse_optimizer(model, 0.01)
with torch.autograd.detect_anomaly(check_nan=True):  # verify: anomaly-detection-left-on confirmed
    for it in range(16):
        x = torch.randn(12, 4)
        loss = nn.functional.mse_loss(model(x), x.prod(1, keepdim=True))
        loss.backward()  # verify: missing-zero-grad refuted
print("loss", loss.item())
