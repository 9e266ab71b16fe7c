"""Two ranks average the weights of each layer by hand, but not its bias: no layer is meant to be a rank's own in part."""

import tempfile

import torch
import torch.distributed as dist
from torch import multiprocessing, nn


def worker(rank, meeting):
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=2)
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    generator = torch.Generator().manual_seed(rank)
    for _ in range(8):
        optimizer.zero_grad()
        x = torch.randn(8, 4, generator=generator)
        (model(x) - x.sum(1, keepdim=True) - 1).pow(2).mean().backward()
        for leaf in model.parameters():
            if leaf.dim() > 1:
                dist.all_reduce(leaf.grad)  # seen: differing-ranks (averaged only in part)
                leaf.grad /= 2
        optimizer.step()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        multiprocessing.start_processes(worker, (f"{folder}/meeting",), nprocs=2, start_method="fork")
