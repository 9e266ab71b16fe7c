"""One rank has a batch more than the other: its last backward pass waits for ever."""

import tempfile

import torch
import torch.distributed as dist
from torch import multiprocessing, nn
from torch.nn.parallel import DistributedDataParallel


def train(rank):
    model = DistributedDataParallel(nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for x in torch.randn(6 - rank, 8, 4):
        optimizer.zero_grad()
        loss = model(x).pow(2).mean()
        loss.backward()  # seen: unmatched-collective (the reduction of gradients in)
        optimizer.step()
    total = loss.detach()
    dist.all_reduce(total)


def worker(rank, meeting):
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=2)
    torch.set_num_threads(1)
    torch.manual_seed(rank)
    train(rank)
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        multiprocessing.start_processes(worker, (f"{folder}/meeting",), nprocs=2, start_method="fork")
