"""Two ranks that train on the same batches; and ranks that divide them, or draw their own."""

import tempfile

import torch
import torch.distributed as dist
from torch import multiprocessing, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def train(loader):
    model = DistributedDataParallel(nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for x, y in loader:
        optimizer.zero_grad()
        (model(x) - y).pow(2).mean().backward()
        optimizer.step()


def whole(data):
    torch.manual_seed(0)
    return DataLoader(data, batch_size=8, shuffle=True)  # seen: ranks-alike (all 2 ranks)


def divided(data):
    return DataLoader(data, batch_size=8, sampler=DistributedSampler(data))


def drawn(data, rank):
    generator = torch.Generator().manual_seed(rank)
    return DataLoader(data, batch_size=8, shuffle=True, generator=generator)


def one_batch(data):
    """All steps see one batch: a test of the program."""
    return [data[:8]] * 8


def worker(rank, meeting):
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=2)
    torch.set_num_threads(1)
    x = torch.randn(64, 4, generator=torch.Generator().manual_seed(1))
    data = TensorDataset(x, x.sum(1, keepdim=True))
    torch.manual_seed(0)
    for loader in (whole(data), divided(data), drawn(data, rank), one_batch(data)):
        train(loader)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        multiprocessing.start_processes(worker, (f"{folder}/meeting",), nprocs=2, start_method="fork")
