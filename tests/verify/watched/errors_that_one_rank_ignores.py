"""A bad batch is skipped on one rank, and with it a collective."""

import tempfile

import torch
import torch.distributed as dist
from torch import multiprocessing, nn
from torch.nn.parallel import DistributedDataParallel


def batches(rank):
    for number in range(8):
        yield None if rank and number == 2 else torch.randn(8, 4)


def train(rank):
    model = DistributedDataParallel(nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for x in batches(rank):
        optimizer.zero_grad()
        try:
            loss = model(x * 2).pow(2).mean()
        except TypeError:
            continue
        loss.backward()  # seen: unmatched-collective (rank 1 has ended after 15 of 16 calls)
        optimizer.step()
        shown = loss.detach()
        dist.all_reduce(shown)


def worker(rank, meeting):
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=2)
    torch.set_num_threads(1)
    torch.manual_seed(rank)
    train(rank)
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        multiprocessing.start_processes(worker, (f"{folder}/meeting",), nprocs=2, start_method="fork")
