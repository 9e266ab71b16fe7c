"""One rank stops early, since its own loss is small; the other one goes on."""

import tempfile

import torch
import torch.distributed as dist
from torch import multiprocessing, nn


def train(rank):
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)  # seen: differing-ranks
    for step in range(8):
        optimizer.zero_grad()
        loss = model(torch.randn(8, 4)).pow(2).mean()
        loss.backward()
        for leaf in model.parameters():
            dist.all_reduce(leaf.grad)  # seen: unmatched-collective (after 6 of 7 calls)
        optimizer.step()
        if loss * (1 - rank) > 100 or (rank and step == 2):
            return


def worker(rank, meeting):
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=2)
    torch.set_num_threads(1)
    torch.manual_seed(rank)
    train(rank)
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        multiprocessing.start_processes(worker, (f"{folder}/meeting",), nprocs=2, start_method="fork")
