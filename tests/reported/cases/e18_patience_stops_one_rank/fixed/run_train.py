import argparse
import logging
import sys
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

import tools


def get_dataset(count, seed):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(count, 6, generator=generator)
    return TensorDataset(x, x[:, :1].sin() + 0.5 * torch.randn(count, 1, generator=generator))


def run(args):
    dist.init_process_group(backend="gloo", timeout=timedelta(seconds=args.timeout))
    rank, world_size = dist.get_rank(), dist.get_world_size()
    logging.basicConfig(level=logging.INFO if rank == 0 else logging.WARNING, format="%(message)s",
                        stream=sys.stdout)
    torch.manual_seed(args.seed)
    train_set, valid_set = get_dataset(96, 1), get_dataset(48, 2)
    train_sampler = DistributedSampler(train_set, num_replicas=world_size, rank=rank, shuffle=True, seed=args.seed)
    train_loader = DataLoader(train_set, batch_size=args.batch_size, sampler=train_sampler)
    valid_loader = DataLoader(valid_set, batch_size=48)
    model = nn.Sequential(nn.Linear(6, 64), nn.SiLU(), nn.Linear(64, 1))
    distributed_model = DDP(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    epochs = tools.train(model, train_loader, train_sampler, valid_loader, optimizer, args.max_num_epochs,
                         args.patience, rank, distributed_model)
    print(f"rank {rank} left the loop after {epochs} epochs", flush=True)
    dist.barrier()
    loss = tools.evaluate(distributed_model, valid_loader)
    print(f"rank {rank} final validation loss {loss:.4f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--max_num_epochs", type=int, default=60)
    parser.add_argument("--patience", type=int, default=5)
    parser.add_argument("--batch_size", type=int, default=16)
    parser.add_argument("--lr", type=float, default=0.03)
    parser.add_argument("--seed", type=int, default=123)
    parser.add_argument("--timeout", type=int, default=8)
    run(parser.parse_args())
