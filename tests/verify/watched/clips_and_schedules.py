"""Clippings that leave nothing, schedules that never move, parameters that two optimizers move; and those that are right."""

import torch
from torch import nn
from torch.nn import functional as F
from torch.optim.lr_scheduler import LambdaLR, LinearLR, SequentialLR, StepLR

torch.manual_seed(0)


def train(model, *optimizers, bound=None, steps=12):
    for _ in range(steps):
        for optimizer in optimizers:
            optimizer.zero_grad()
            x = torch.randn(8, 4)
            F.mse_loss(model(x), 1000 * x.sum(1, keepdim=True)).backward()
            if bound:
                nn.utils.clip_grad_norm_(model.parameters(), bound)  # seen: gradients-clipped-to-nothing
            optimizer.step()


def body():
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))


def clipped_to_nothing():
    model = body()
    train(model, torch.optim.SGD(model.parameters(), lr=0.01), bound=1e-7)


def clipped_and_scaled_again():
    model = body()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.001)
    for _ in range(12):
        optimizer.zero_grad()
        x = torch.randn(8, 4)
        F.mse_loss(model(x), 1000 * x.sum(1, keepdim=True)).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.01)
        optimizer.step()


def never_stepped():
    model = body()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-5)
    schedule = StepLR(optimizer, 5)  # seen: scheduler-never-stepped
    train(model, optimizer)
    return schedule.get_last_lr()


def stepped_once():
    model = body()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-5)
    schedule = SequentialLR(optimizer, [LinearLR(optimizer), StepLR(optimizer, 5)], [3])
    train(model, optimizer)
    schedule.step()


def ends_at_zero():
    model = body()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-5)
    schedule = LambdaLR(optimizer, lambda step: (12 - step) // 12)  # seen: zero-learning-rate (last 11 of 12 steps)
    for _ in range(12):
        train(model, optimizer, steps=1)
        schedule.step()


def warms_up_in_whole_numbers():
    model = body()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    schedule = warm_up(optimizer, 100)
    for _ in range(12):
        train(model, optimizer, steps=1)
        schedule.step()


def warm_up(optimizer, steps):
    return LambdaLR(optimizer, lambda step: min(1, step // steps))  # seen: zero-learning-rate (this schedule sets it)


def rests_beside_a_schedule():
    model = body()
    groups = [{"params": model[0].parameters(), "lr": 0.0}, {"params": model[1:].parameters()}]
    optimizer = torch.optim.SGD(groups, lr=1e-5)  # seen: zero-learning-rate (group 0)
    schedule = LambdaLR(optimizer, lambda step: 0.9**step)
    for _ in range(12):
        train(model, optimizer, steps=1)
        schedule.step()


def in_turns():
    model = body()
    one = torch.optim.SGD(model.parameters(), lr=1e-5)  # seen: parameter-in-two-optimizers
    other = torch.optim.Adam(model.parameters(), lr=1e-3)  # seen: parameter-in-two-optimizers
    train(model, one, other)


def one_after_the_other():
    model = body()
    train(model, torch.optim.Adam(model.parameters(), lr=1e-3))
    train(model, torch.optim.SGD(model.parameters(), lr=1e-5))


for part in (clipped_to_nothing, clipped_and_scaled_again, never_stepped, stepped_once, ends_at_zero, in_turns, one_after_the_other):
    part()
warms_up_in_whole_numbers()
rests_beside_a_schedule()
