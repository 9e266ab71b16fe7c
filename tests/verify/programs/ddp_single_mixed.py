"""DistributedDataParallel on one gloo process, as used to smoke-test a launch script."""
import os
import tempfile

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

LOSSES = []


def log_loss(value, rank):
    if rank > 0:
        LOSSES.append(value.clone())  # verify: undetached-accumulation not-reached
    return value


def train(rank):
    torch.set_num_threads(1)
    torch.manual_seed(rank)
    model = DDP(nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 1)))
    opt = torch.optim.SGD(model.parameters(), lr=0.03, momentum=0.9)
    trace = {"rank": rank, "epochs": []}
    for epoch in range(2):
        trace["epochs"].append({"loss": []})
        for _ in range(12):
            opt.zero_grad(set_to_none=False)
            x = torch.randn(16, 6)
            loss = (model(x) - x.prod(1, keepdim=True)).pow(2).mean()
            loss.backward()
            opt.step()
            trace["epochs"][-1]["loss"].append(log_loss(loss, rank))  # verify: undetached-accumulation confirmed
        print(epoch, sum(trace["epochs"][-1]["loss"]).item() / 12)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as tmp:
        dist.init_process_group("gloo", init_method="file://" + os.path.join(tmp, "rdzv"), rank=0, world_size=1)
        train(dist.get_rank())
        dist.destroy_process_group()
