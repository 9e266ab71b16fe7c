"""Data parallel training in one process, with unit-norm embeddings and helper functions for the optimizer."""
import os
import socket

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

DEBUG = os.environ.get("DEBUG_AUTOGRAD", "0") == "1"


class Recommender(nn.Module):
    def __init__(self, items=40, dim=8):
        super().__init__()
        self.items = nn.Embedding(items, dim)
        self.mix = nn.Linear(2 * dim, 1)

    def forward(self, a, b):
        return self.mix(torch.cat([self.items(a), self.items(b)], dim=1)).squeeze(1)

    @torch.no_grad()
    def normalise(self):
        weight = self.items.weight
        weight.div_(weight.norm(dim=1, keepdim=True).clamp_min(1.0))  # verify: inplace-on-leaf refuted


def apply_update(optimizer, loss):
    loss.backward()  # verify: missing-zero-grad refuted
    optimizer.step()
    reset(optimizer)


def reset(optimizer):
    for group in optimizer.param_groups:
        for p in group["params"]:
            if p.grad is not None:
                p.grad.data.zero_()


def main():
    torch.manual_seed(64)
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=0, world_size=1)
    torch.autograd.set_detect_anomaly(DEBUG)  # verify: anomaly-detection-left-on refuted
    model = DistributedDataParallel(Recommender())
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for step in range(24):
        a, b = torch.randint(0, 40, (2, 48))
        loss = nn.functional.binary_cross_entropy_with_logits(model(a, b), ((a + b) % 2).float())
        apply_update(optimizer, loss)
        model.module.normalise()
        if step % 8 == 0:
            print(f"step {step}: {loss.item():.4f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
