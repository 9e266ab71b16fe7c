"""Only members make a group, but all ranks must."""

import tempfile

import torch
import torch.distributed as dist
from torch import multiprocessing, nn


def train(rank):
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(4):
        optimizer.zero_grad()
        model(torch.randn(8, 4)).pow(2).mean().backward()
        optimizer.step()
    if rank == 0:
        dist.new_group([0])  # seen: unmatched-collective (rank 1 waits in `barrier`)
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
