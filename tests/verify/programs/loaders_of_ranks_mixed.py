"""Two ranks with loaders of their own: one draws the same batches in both, the other one does not."""

import tempfile

import torch
import torch.distributed as dist
from torch import multiprocessing, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset


def train(loader):
    model = DistributedDataParallel(nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for (x,) in loader:
        optimizer.zero_grad()
        model(x).pow(2).mean().backward()
        optimizer.step()


def worker(rank, meeting):
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=2)
    torch.set_num_threads(1)
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(40, 4))
    train(DataLoader(data, batch_size=8, shuffle=True))  # verify: unsharded-loader confirmed, unseen by the linter
    mine = torch.Generator().manual_seed(rank)
    train(DataLoader(data, 8, shuffle=True, generator=mine))  # verify: unsharded-loader refuted, says inconclusive
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        multiprocessing.start_processes(worker, (f"{folder}/meeting",), nprocs=2, start_method="fork")
