import math
import os
import tempfile

import torch
from torch import nn, optim
from torch.optim import lr_scheduler

hyper = {"lr0": 0.01, "momentum": 0.937, "weight_decay": 5e-4}


class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.model = nn.Sequential(nn.Linear(10, 24), nn.BatchNorm1d(24), nn.SiLU(), nn.Linear(24, 4))

    def forward(self, x):
        return self.model(x)


def build_optimizer(model):
    plain, decayed, biases = [], [], []
    for k, v in model.named_parameters():
        if k.endswith(".bias"):
            biases.append(v)
        elif v.dim() > 1:
            decayed.append(v)
        else:
            plain.append(v)
    optimizer = optim.SGD(plain, lr=hyper["lr0"], momentum=hyper["momentum"], nesterov=True)
    optimizer.add_param_group({"params": decayed, "weight_decay": hyper["weight_decay"]})
    optimizer.add_param_group({"params": biases})
    return optimizer


def train(last, epochs=10, stop=None, resume=False):
    torch.manual_seed(0)
    x = torch.randn(64, 10)
    t = x[:, :4].sin()
    model = Head()
    optimizer = build_optimizer(model)
    start_epoch = 0
    curve = lambda e: 0.1 + 0.45 * (1 + math.cos(math.pi * e / epochs))
    scheduler = lr_scheduler.LambdaLR(optimizer, lr_lambda=curve)

    if resume:
        saved = torch.load(last)
        model.load_state_dict(saved["model"])
        if saved["optimizer"] is not None:
            optimizer.load_state_dict(saved["optimizer"])
        start_epoch = saved["epoch"] + 1
    scheduler.last_epoch = start_epoch

    rates = []
    for epoch in range(start_epoch, stop or epochs):
        model.train()
        for i in range(0, 64, 16):
            loss = (model(x[i:i + 16]) - t[i:i + 16]).pow(2).mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        rates.append(optimizer.param_groups[0]["lr"])
        scheduler.step()
        torch.save({"epoch": epoch, "model": model.state_dict(), "optimizer": optimizer.state_dict()}, last)
        print(f"epoch {epoch} loss {loss.item():.4f} lr {rates[-1]:.5f}")
    return rates


def main():
    with tempfile.TemporaryDirectory() as folder:
        last = os.path.join(folder, "last.pt")
        first = train(last, stop=6)
        second = train(last, resume=True)
    return first, second


if __name__ == "__main__":
    main()
