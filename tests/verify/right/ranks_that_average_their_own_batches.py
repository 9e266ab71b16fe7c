"""Two ranks that average their gradients by hand, and each reads its own part of the data."""

import tempfile

import torch
import torch.distributed as dist
from torch import multiprocessing, nn
from torch.utils.data import DataLoader, Subset, TensorDataset


def part(data, rank, world):
    size = len(data) // world
    first = rank * size
    return Subset(data, range(first, first + size))


def worker(rank, meeting):
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=2)
    torch.set_num_threads(1)
    torch.manual_seed(0)
    x = torch.randn(128, 4)
    data = TensorDataset(x, x.sum(1, keepdim=True))
    loader = DataLoader(part(data, rank, 2), batch_size=8, shuffle=True)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for x, y in loader:
        optimizer.zero_grad()
        (model(x) - y).pow(2).mean().backward()
        for leaf in model.parameters():
            dist.all_reduce(leaf.grad)
            leaf.grad /= 2
        optimizer.step()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        multiprocessing.start_processes(worker, (f"{folder}/meeting",), nprocs=2, start_method="fork")
