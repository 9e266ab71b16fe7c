"""Two data parallel processes that accumulate gradients and clear them on their own schedule."""
import os
import socket

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel

ACCUMULATE = 2
CLEAR_EVERY = 4


def worker(rank, world_size, port):
    os.environ["MASTER_ADDR"] = "127.0.0.1"
    os.environ["MASTER_PORT"] = str(port)
    dist.init_process_group("gloo", rank=rank, world_size=world_size)
    torch.manual_seed(35)
    torch.set_num_threads(1)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
    generator = torch.Generator().manual_seed(rank)
    optimizer.zero_grad()
    for i in range(32):
        x = torch.randn(12, 6, generator=generator)
        loss = nn.functional.mse_loss(model(x), x.mean(dim=1, keepdim=True)) / ACCUMULATE
        loss.backward()  # verify: missing-zero-grad confirmed
        if (i + 1) % ACCUMULATE == 0:
            optimizer.step()
        if (i + 1) % CLEAR_EVERY == 0:
            optimizer.zero_grad()
        if rank == 0 and i % 8 == 0:
            print(f"micro-batch {i}: {loss.item() * ACCUMULATE:.4f}")
    dist.barrier()
    dist.destroy_process_group()


def pick_port():
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


if __name__ == "__main__":
    mp.spawn(worker, args=(2, pick_port()), nprocs=2, join=True)
