"""The last stage waits for one message more than the first one sends."""

import tempfile

import torch
import torch.distributed as dist
from torch import multiprocessing, nn


def train(rank):
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(4 + rank):
        optimizer.zero_grad()
        x = torch.randn(8, 4)
        if rank == 0:
            dist.send(x, 1)
        else:
            dist.recv(x, 0)  # seen: unmatched-collective (rank 0 waits in `barrier`)
        model(x).pow(2).mean().backward()
        optimizer.step()
    dist.barrier()


def worker(rank, meeting):
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=2)
    torch.set_num_threads(1)
    torch.manual_seed(rank)
    train(rank)
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        multiprocessing.start_processes(worker, (f"{folder}/meeting",), nprocs=2, start_method="fork")
