"""The first rank waits at a barrier that the other one never reaches."""

import tempfile

import torch
import torch.distributed as dist
from torch import multiprocessing, nn


def save(model, rank):
    if rank == 0:
        torch.save(model.state_dict(), tempfile.TemporaryFile())
        dist.barrier()  # seen: unmatched-collective (rank 1 runs `all_reduce`)


def train(rank):
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)  # seen: differing-ranks
    for step in range(6):
        optimizer.zero_grad()
        model(torch.randn(8, 4)).pow(2).mean().backward()
        for leaf in model.parameters():
            dist.all_reduce(leaf.grad)
        optimizer.step()
        if step == 3:
            save(model, rank)


def worker(rank, meeting):
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=2)
    torch.set_num_threads(1)
    torch.manual_seed(rank)
    train(rank)
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        multiprocessing.start_processes(worker, (f"{folder}/meeting",), nprocs=2, start_method="fork")
