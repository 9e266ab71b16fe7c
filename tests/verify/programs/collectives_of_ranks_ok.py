"""Collectives in a branch on the rank: the other rank makes its counterpart elsewhere."""

import tempfile

import torch
import torch.distributed as dist
from torch import multiprocessing, nn


def send(values):
    dist.broadcast(values, 0)  # verify: collective-on-one-rank refuted, unseen by the linter


def receive(values):
    dist.broadcast(values, 0)


def worker(rank, meeting):
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=2)
    torch.set_num_threads(1)
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(4):
        x = torch.randn(8, 4)
        if rank == 0:
            send(x)
        else:
            receive(x)
        optimizer.zero_grad()
        model(x).pow(2).mean().backward()
        optimizer.step()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        multiprocessing.start_processes(worker, (f"{folder}/meeting",), nprocs=2, start_method="fork")
