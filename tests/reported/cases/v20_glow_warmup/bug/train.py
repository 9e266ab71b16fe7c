import argparse

import torch
from torch.utils.data import DataLoader
from torchvision import datasets, transforms


def main(model, dataroot, batch_size, epochs, lr, warmup, warmup_steps, max_grad_norm):
    data = datasets.CIFAR10(dataroot, train=True, transform=transforms.ToTensor(), download=True)
    loader = DataLoader(data, batch_size=batch_size, shuffle=True, drop_last=True)
    optimizer = torch.optim.Adamax(model.parameters(), lr=lr, weight_decay=5e-5)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: min(1.0, (epoch + 1) / warmup))
    for epoch in range(epochs):
        model.train()
        for x, _ in loader:
            optimizer.zero_grad()
            nll = model(x).mean()
            nll.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), max_grad_norm)
            optimizer.step()
        scheduler.step()
        print(epoch, nll.item())


if __name__ == "__main__":
    from model import Glow

    parser = argparse.ArgumentParser()
    parser.add_argument("--dataroot", default="./")
    parser.add_argument("--batch_size", type=int, default=64)
    parser.add_argument("--epochs", type=int, default=250)
    parser.add_argument("--lr", type=float, default=5e-4)
    parser.add_argument("--warmup", type=float, default=5)
    parser.add_argument("--warmup_steps", type=int, default=1000)
    parser.add_argument("--max_grad_norm", type=float, default=100)
    args = parser.parse_args()
    main(Glow(), **vars(args))
