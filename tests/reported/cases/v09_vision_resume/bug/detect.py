import argparse
import os
import time

import torch
from torch.utils.data import DataLoader


def train_one_epoch(model, optimizer, loader, epoch):
    model.train()
    for images, targets in loader:
        losses = sum(model(images, targets).values())
        optimizer.zero_grad()
        losses.backward()
        optimizer.step()
    print("epoch", epoch, "lr", optimizer.param_groups[0]["lr"])


def main(args, model, dataset):
    loader = DataLoader(dataset, batch_size=2, shuffle=True, collate_fn=lambda b: tuple(zip(*b)))
    params = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.SGD(params, lr=args.lr, momentum=0.9, weight_decay=1e-4)
    lr_scheduler = torch.optim.lr_scheduler.MultiStepLR(optimizer, milestones=[8, 11], gamma=0.1)
    if args.resume:
        checkpoint = torch.load(args.resume, map_location="cpu")
        model.load_state_dict(checkpoint["model"])
        optimizer.load_state_dict(checkpoint["optimizer"])
        lr_scheduler.load_state_dict(checkpoint["lr_scheduler"])
    start = time.time()
    for epoch in range(args.epochs):
        train_one_epoch(model, optimizer, loader, epoch)
        lr_scheduler.step()
        if args.output_dir:
            torch.save(
                {
                    "model": model.state_dict(),
                    "optimizer": optimizer.state_dict(),
                    "lr_scheduler": lr_scheduler.state_dict(),
                    "epoch": epoch,
                },
                os.path.join(args.output_dir, "model_{}.pth".format(epoch)),
            )
    print("took", time.time() - start)


def get_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("--lr", default=0.02, type=float)
    parser.add_argument("--epochs", default=13, type=int)
    parser.add_argument("--resume", default="")
    parser.add_argument("--output-dir", default=".")
    return parser.parse_args()
