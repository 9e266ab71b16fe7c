import copy

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from ntxent import ContrastiveLoss


def views(count, generator):
    base = torch.randn(count, 16, generator=generator)
    return (base + 0.3 * torch.randn(count, 16, generator=generator),
            base + 0.3 * torch.randn(count, 16, generator=generator))


def flat_gradient(model):
    return torch.cat([p.grad.flatten() for p in model.parameters()])


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(40)
    encoder = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 8))
    alone = copy.deepcopy(encoder)
    model = DistributedDataParallel(encoder)
    criterion = ContrastiveLoss(gather_distributed=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(20):
        first, second = views(32, generator)
        mine = slice(rank * 32 // world, (rank + 1) * 32 // world)
        outputs = model(torch.cat([first[mine], second[mine]])).chunk(2)
        loss = criterion(*outputs)
        optimizer.zero_grad()
        loss.backward()
        if step == 0:
            whole = ContrastiveLoss()(alone(first), alone(second))
            whole.backward()
            expected, found = flat_gradient(alone), flat_gradient(encoder)
        optimizer.step()
    if rank == 0:
        error = ((found - expected).norm() / expected.norm()).item()
        print(f"gradient of {world} ranks against one process: relative difference {error:.4f}; loss {loss.item():.4f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
