"""Schedules that bring the learning rate to almost nothing; and schedules that end there."""

import torch
from torch import nn
from torch.nn import functional as F
from torch.optim import lr_scheduler

torch.manual_seed(0)


def train(schedule, steps, move):
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    schedule = schedule(optimizer)
    for step in range(steps):
        optimizer.zero_grad()
        x = torch.randn(8, 4)
        F.mse_loss(model(x), x.sum(1, keepdim=True)).backward()
        optimizer.step()
        move(schedule, step)


def each_batch(schedule, step):
    schedule.step()  # seen: vanished-learning-rate (to 1e-08 in 36 steps)


def each_batch_rightly(schedule, step):
    schedule.step()


def each_epoch(schedule, step):
    if step % 9 == 8:
        schedule.step()


train(lambda optimizer: lr_scheduler.StepLR(optimizer, 5, 0.1), 36, each_batch)
train(lambda optimizer: lr_scheduler.StepLR(optimizer, 2, 0.1), 36, each_epoch)
train(lambda optimizer: lr_scheduler.CosineAnnealingLR(optimizer, 36), 36, each_batch_rightly)
train(lambda optimizer: lr_scheduler.OneCycleLR(optimizer, 0.2, total_steps=37), 36, each_batch_rightly)
train(lambda optimizer: lr_scheduler.LambdaLR(optimizer, lambda step: min(1, step / 30)), 36, each_batch_rightly)
train(lambda optimizer: lr_scheduler.CosineAnnealingWarmRestarts(optimizer, 12), 36, each_batch_rightly)
train(lambda optimizer: lr_scheduler.ExponentialLR(optimizer, 0.9), 36, each_batch_rightly)
