"""Schedules that begin a step too early, as PyTorch warns; after the fixes it does not."""

import torch
import torch.nn.functional as F
from torch.optim.lr_scheduler import StepLR


def first_in_the_loop(model, loader):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    scheduler = StepLR(optimizer, 1, 0.5)
    for x, y in loader:
        scheduler.step()
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), y)
        if torch.isnan(loss):
            continue
        loss.backward()
        optimizer.step()


def each_window(model, batches):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    scheduler = StepLR(optimizer, 1, 0.5)
    for i, (x, y) in enumerate(batches):
        F.mse_loss(model(x), y).backward()
        if (i + 1) % 3 == 0:
            scheduler.step()
            optimizer.step()
            optimizer.zero_grad()
