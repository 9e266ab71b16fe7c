"""One rank has fewer batches, in a `Join` context: it makes the calls of the other one until that has ended."""

import tempfile

import torch
import torch.distributed as dist
from torch import multiprocessing, nn
from torch.distributed.algorithms.join import Join
from torch.nn.parallel import DistributedDataParallel


def worker(rank, meeting):
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=2)
    torch.set_num_threads(1)
    torch.manual_seed(rank)
    model = DistributedDataParallel(nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with Join([model]):
        for x in torch.randn(6 - 2 * rank, 8, 4):
            optimizer.zero_grad()
            model(x).pow(2).mean().backward()
            optimizer.step()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        multiprocessing.start_processes(worker, (f"{folder}/meeting",), nprocs=2, start_method="fork")
