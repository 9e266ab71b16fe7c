"""Silent errors that TrainCheck (OSDI 2025) names, re-created from public descriptions: those of several ranks."""

import tempfile

import torch
import torch.distributed as dist
from torch import multiprocessing, nn
from torch.nn.parallel import DistributedDataParallel


def batch(rank):
    x = torch.randn(8, 4) + rank
    return x, x.sum(1, keepdim=True)


def train(net, optimizer, rank, steps=6, change=lambda step: None):
    for step in range(steps):
        optimizer.zero_grad()
        x, y = batch(rank)
        (net(x) - y).pow(2).mean().backward()
        change(step)
        optimizer.step()


def average(net):
    for leaf in net.parameters():
        dist.all_reduce(leaf.grad)
        leaf.grad /= 2


def deepspeed_1801(rank):
    """Gradients of replicated weights are clipped on one rank only."""
    net = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)  # seen: differing-ranks (they were the same before)

    def change(step):
        average(net)
        if rank and step > 2:
            nn.utils.clip_grad_norm_(net.parameters(), 0.01)

    train(net, optimizer, rank, change=change)


def pytorch_104336(rank):
    """Parameters are moved after the model was wrapped: the hooks that average gradients stay with the old ones."""
    net = DistributedDataParallel(nn.Linear(4, 1))
    for name, leaf in list(net.module.named_parameters()):
        setattr(net.module, name, nn.Parameter(leaf.detach().double().float()))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)  # seen: differing-ranks
    train(net, optimizer, rank)


def pytorch_84803(rank):
    """A GPU receives zeros now and then."""
    net = DistributedDataParallel(nn.Linear(4, 1))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)  # seen: differing-ranks

    def change(step):
        if rank and step == 2:
            for leaf in net.parameters():
                leaf.grad.zero_()

    train(net, optimizer, rank, change=change)


def pytorch_96600(rank):
    """One of two buckets of gradients is not exchanged."""
    net = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 1))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)  # seen: differing-ranks (they were the same before)
    train(net, optimizer, rank, change=lambda step: average(net if step < 3 else net[1]))


def baichuan2_86(rank):
    """Weights that are sent to the second GPU arrive as zeros."""
    net = DistributedDataParallel(nn.Linear(4, 1))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)  # seen: differing-ranks
    if rank:
        net.module.weight.data.zero_()
    train(net, optimizer, rank)


def ddp_out_of_sync(rank):
    """The model is called around its wrapper (x-jxmnop)."""
    net = DistributedDataParallel(nn.Linear(4, 1))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)  # seen: differing-ranks
    train(net.module, optimizer, rank)


def worker(rank, meeting):
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=2)
    torch.set_num_threads(1)
    torch.manual_seed(0)
    for failure in (deepspeed_1801, pytorch_104336, pytorch_84803, pytorch_96600, baichuan2_86, ddp_out_of_sync):
        failure(rank)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        multiprocessing.start_processes(worker, (f"{folder}/meeting",), nprocs=2, start_method="fork")
