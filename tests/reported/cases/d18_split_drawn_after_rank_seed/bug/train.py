import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler

from factory import Config, make_dataset
from random_utils import set_seed


def cycle(loader, sampler):
    epoch = 0
    while True:
        sampler.set_epoch(epoch)
        yield from loader
        epoch += 1


def main():
    cfg = Config()
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(cfg.seed)
    policy = DistributedDataParallel(nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 2)))
    set_seed(cfg.seed, rank)
    train_set, val_set = make_dataset(cfg)
    sampler = DistributedSampler(train_set, seed=cfg.seed)
    batches = cycle(DataLoader(train_set, batch_size=cfg.batch_size, sampler=sampler), sampler)
    optimizer = torch.optim.Adam(policy.parameters(), lr=3e-3)
    used = torch.zeros(200)
    for step in range(cfg.steps):
        states, actions, index = next(batches)
        states = states + cfg.augment * torch.randn_like(states)
        loss = F.mse_loss(policy(states), actions)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        used[index] = 1
    dist.all_reduce(used)
    held_out = torch.tensor(val_set.indices)
    leaked = (used[held_out] > 0).sum().item()
    print(f"rank {rank} of {world}: {leaked} of {len(held_out)} validation frames were trained on by some rank")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
