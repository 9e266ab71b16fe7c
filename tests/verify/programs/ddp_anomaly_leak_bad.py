"""Data parallel training in one process with the gloo backend."""
import os
import socket

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def setup(rank=0, world_size=1):
    os.environ["MASTER_ADDR"] = "127.0.0.1"
    os.environ["MASTER_PORT"] = str(free_port())
    dist.init_process_group("gloo", rank=rank, world_size=world_size)


def train(epochs=2, steps=12):
    model = DDP(nn.Sequential(nn.Linear(10, 40), nn.ReLU(), nn.Linear(40, 1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loss_fn = nn.MSELoss()
    for epoch in range(epochs):
        losses = []
        for step in range(steps):
            x = torch.randn(20, 10)
            optimizer.zero_grad(set_to_none=True)
            with torch.autograd.set_detect_anomaly(True):  # verify: anomaly-detection-left-on confirmed
                loss = loss_fn(model(x), x.sin().sum(dim=1, keepdim=True))
                loss.backward()  # verify: missing-zero-grad refuted
            optimizer.step()
            losses.append(loss)  # verify: undetached-accumulation confirmed
        mean = torch.stack(losses).mean()
        dist.all_reduce(mean.detach())
        print(f"epoch {epoch}: {mean.item() / dist.get_world_size():.4f}")


if __name__ == "__main__":
    torch.manual_seed(34)
    setup()
    try:
        train()
    finally:
        dist.destroy_process_group()
