"""The ranks make the same two calls in another order."""

import tempfile

import torch
import torch.distributed as dist
from torch import multiprocessing, nn


def train(rank):
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(4):
        optimizer.zero_grad()
        loss = model(torch.randn(8, 4)).pow(2).mean()
        loss.backward()
        optimizer.step()
        names = {"loss": loss.detach(), "norm": model.weight.detach().norm()}
        for name in sorted(names, reverse=bool(rank)):
            if name == "loss":
                dist.all_reduce(names[name])  # seen: unmatched-collective (rank 1 runs `broadcast` with rank 0)
            else:
                dist.broadcast(names[name], 0)


def worker(rank, meeting):
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=2)
    torch.set_num_threads(1)
    torch.manual_seed(rank)
    train(rank)
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        multiprocessing.start_processes(worker, (f"{folder}/meeting",), nprocs=2, start_method="fork")
