import argparse
import math
import torch
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler
from model import make_model
from data import make_dataset

def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--dist", action="store_true")
    parser.add_argument("--batch_size", type=int, default=16)
    parser.add_argument("--iters", type=int, default=500000)
    options = parser.parse_args()
    rank, world = 0, 1
    if options.dist:
        torch.distributed.init_process_group("nccl")
        rank, world = torch.distributed.get_rank(), torch.distributed.get_world_size()
    train_set = make_dataset("train")
    if options.dist:
        train_sampler = DistributedSampler(train_set, shuffle=True, drop_last=True)
        train_loader = DataLoader(train_set, batch_size=options.batch_size // world, shuffle=False, drop_last=True, sampler=train_sampler)
    else:
        train_loader = DataLoader(train_set, batch_size=options.batch_size, shuffle=True, drop_last=True)
    model = make_model(options.dist, rank)
    current = 0
    for epoch in range(math.ceil(options.iters / len(train_loader))):
        for train_data in train_loader:
            current += 1
            model.feed(train_data)
            model.improve()
            if current % 200 == 0 and rank == 0:
                print(epoch, current, model.loss.item())

if __name__ == "__main__":
    main()
