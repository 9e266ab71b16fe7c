"""One rank fails, and the other one waits for it."""

import tempfile

import torch
import torch.distributed as dist
from torch import multiprocessing, nn


def train(rank):
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(6):
        optimizer.zero_grad()
        model(torch.randn(8, 4)).pow(2).mean().backward()
        optimizer.step()
        if rank and step == 3:
            raise ValueError("no data")  # seen: unmatched-collective (Rank 0 waits for it in `barrier`)
    dist.barrier()


def worker(rank, meeting):
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=2)
    torch.set_num_threads(1)
    torch.manual_seed(rank)
    train(rank)
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        ranks = [multiprocessing.Process(target=worker, args=(rank, f"{folder}/meeting")) for rank in range(2)]
        for rank in ranks:
            rank.start()
        for rank in ranks:
            rank.join()
