"""Two ranks whose parameters part: what wraps them is gone around; and two that stay the same."""

import tempfile

import torch
import torch.distributed as dist
from torch import multiprocessing, nn
from torch.nn.parallel import DistributedDataParallel


def train(model, rank, forward):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    generator = torch.Generator().manual_seed(rank)
    for _ in range(8):
        optimizer.zero_grad()
        x = torch.randn(8, 4, generator=generator)
        (forward(x) - x.sum(1, keepdim=True)).pow(2).mean().backward()
        optimizer.step()


def gone_around(model, rank):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)  # seen: differing-ranks (wraps them)
    generator = torch.Generator().manual_seed(rank)
    for _ in range(8):
        optimizer.zero_grad()
        x = torch.randn(8, 4, generator=generator)
        (model.module(x) - x.sum(1, keepdim=True)).pow(2).mean().backward()
        optimizer.step()


def clipped_on_one_rank(model, rank):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)  # seen: differing-ranks (they were the same before)
    for step in range(12):
        optimizer.zero_grad()
        x = torch.randn(8, 4)
        (model(x) - x.sum(1, keepdim=True)).pow(2).mean().backward()
        for leaf in model.parameters():
            dist.all_reduce(leaf.grad)
        if rank and step > 5:
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()


def worker(rank, meeting):
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=2)
    torch.set_num_threads(1)
    torch.manual_seed(0)
    right, wrong = (DistributedDataParallel(nn.Linear(4, 1)) for _ in range(2))
    train(right, rank, right)
    gone_around(wrong, rank)
    clipped_on_one_rank(nn.Linear(4, 1), rank)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        multiprocessing.start_processes(worker, (f"{folder}/meeting",), nprocs=2, start_method="fork")
