import argparse

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel

from loader import EceiDataset, data_generator
from model import TCN

parser = argparse.ArgumentParser(description='Sequence Modeling - disruption ECEi')
parser.add_argument('--batch-size', type=int, default=4)
parser.add_argument('--nhid', type=int, default=8)
parser.add_argument('--levels', type=int, default=3)
parser.add_argument('--lr', type=float, default=0.05)
parser.add_argument('--epochs', type=int, default=20)
parser.add_argument('--seed', type=int, default=0)


def reduce_mean(value):
    value = torch.tensor(value)
    dist.all_reduce(value, op=dist.ReduceOp.SUM)
    return value.item() / dist.get_world_size()


def train(model, loader, optimizer, epoch):
    model.train()
    loader.sampler.set_epoch(epoch)
    total_loss = 0.0
    for data, target, _ in loader:
        optimizer.zero_grad()
        loss = F.binary_cross_entropy_with_logits(model(data), target)
        loss.backward()
        optimizer.step()
        total_loss += loss.item()
    return total_loss / len(loader)


def main():
    args = parser.parse_args()
    dist.init_process_group(backend='gloo')
    args.rank = dist.get_rank()
    torch.manual_seed(args.seed)
    model = DistributedDataParallel(TCN(4, [args.nhid] * args.levels, kernel_size=3))
    train_loader = data_generator(EceiDataset(), args.batch_size)
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9, nesterov=True)
    scheduler_plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=1)

    for epoch in range(args.epochs):
        total_loss = train(model, train_loader, optimizer, epoch)
        scheduler_plateau.step(total_loss)
        # the loss of all ranks, for the log
        log_loss = reduce_mean(total_loss)
        if args.rank == 0 and epoch % 5 == 4:
            print('Epoch: {:3d}\tLoss: {:.6f}'.format(epoch, log_loss))

    lr = torch.tensor([optimizer.param_groups[0]['lr']])
    weight = model.module.linear.weight.detach()
    lrs = [torch.empty_like(lr) for _ in range(dist.get_world_size())]
    weights = [torch.empty_like(weight) for _ in range(dist.get_world_size())]
    dist.all_gather(lrs, lr)
    dist.all_gather(weights, weight)
    if args.rank == 0:
        print('learning rates', [round(value.item(), 6) for value in lrs])
        print('weights of the ranks differ by {:.6f}'.format((weights[0] - weights[1]).abs().max().item()))
    dist.destroy_process_group()


if __name__ == '__main__':
    main()
