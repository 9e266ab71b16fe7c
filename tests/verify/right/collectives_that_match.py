"""Two ranks whose collective calls look uneven and are not: branches, groups and a slow rank."""

import tempfile
import time

import torch
import torch.distributed as dist
from torch import multiprocessing, nn
from torch.nn.parallel import DistributedDataParallel


def train(model, batches, after=lambda step: None):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step, x in enumerate(batches):
        optimizer.zero_grad()
        model(x).pow(2).mean().backward()
        optimizer.step()
        after(step)


def barriers_in_both_branches(rank):
    """The first rank prepares the data; the other one waits at another line."""
    if rank == 0:
        time.sleep(7)
        dist.barrier()
        dist.broadcast_object_list(["ready"], src=0)
    else:
        dist.barrier()
        dist.broadcast_object_list([None], src=0)


def groups_of_each_rank(rank):
    groups = [dist.new_group([one]) for one in range(2)]
    both = dist.new_group([0, 1])
    for _ in range(2 + rank):
        dist.all_reduce(torch.ones(1), group=groups[rank])
    dist.all_reduce(torch.ones(1), group=both)


def messages(rank):
    x = torch.ones(2)
    for _ in range(3):
        if rank == 0:
            dist.send(x, 1)
            dist.recv(x, 1)
        else:
            dist.recv(x, 0)
            dist.send(x, 0)


def calls_that_are_awaited_later(rank):
    works = [dist.all_reduce(torch.ones(4), async_op=True) for _ in range(3)]
    time.sleep(rank)
    for work in works:
        work.wait()
    parts = [torch.ones(1), torch.zeros(1)] if rank == 0 else None
    dist.scatter(torch.zeros(1), parts, src=0)
    dist.gather_object(rank, [None, None] if rank == 0 else None, dst=0)


def evaluation_of_one_rank(rank):
    """No buffers are exchanged: by the module itself, and by a wrapper without buffers."""
    model = DistributedDataParallel(nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 1)))
    plain = DistributedDataParallel(nn.Linear(4, 1))

    def evaluate(step):
        if rank == 0:
            model.eval()
            with torch.no_grad():
                model.module(torch.randn(8, 4))
                plain(torch.randn(8, 4))
            model.train()

    train(model, torch.randn(4, 8, 4), evaluate)


def accumulation(rank):
    model = DistributedDataParallel(nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(3):
        optimizer.zero_grad()
        with model.no_sync():
            for x in torch.randn(2 + rank, 8, 4):
                model(x).pow(2).mean().backward()
        model(torch.randn(8, 4)).pow(2).mean().backward()
        optimizer.step()


def two_passes_and_one_backward(rank):
    model = DistributedDataParallel(nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(3):
        optimizer.zero_grad()
        (model(torch.randn(8, 4)) + model(torch.randn(8, 4))).pow(2).mean().backward()
        optimizer.step()


def worker(rank, meeting):
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=2)
    torch.set_num_threads(1)
    torch.manual_seed(rank)
    barriers_in_both_branches(rank)
    groups_of_each_rank(rank)
    messages(rank)
    calls_that_are_awaited_later(rank)
    evaluation_of_one_rank(rank)
    accumulation(rank)
    two_passes_and_one_backward(rank)
    if rank == 0:
        time.sleep(7)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        multiprocessing.start_processes(worker, (f"{folder}/meeting",), nprocs=2, start_method="fork")
