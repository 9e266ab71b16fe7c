"""The first rank trains and sends its weights; the other one only acts. Both clean up together, in any case."""

import tempfile

import torch
import torch.distributed as dist
from torch import multiprocessing, nn


def learn(model):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(20):
        optimizer.zero_grad()
        model(torch.randn(8, 4)).pow(2).mean().backward()
        optimizer.step()
        dist.broadcast(model.weight.detach(), 0)


def act(model):
    for _ in range(20):
        dist.broadcast(model.weight.detach(), 0)
        with torch.no_grad():
            model(torch.randn(8, 4))


def worker(rank, meeting):
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=2)
    torch.set_num_threads(1)
    model = nn.Linear(4, 1)
    try:
        act(model) if rank else learn(model)
    finally:
        dist.barrier()
        dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        multiprocessing.start_processes(worker, (f"{folder}/meeting",), nprocs=2, start_method="fork")
