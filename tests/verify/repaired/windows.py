"""Windows of three micro-batches of which the first has one; after the fixes each step has gradients of three."""

import torch
import torch.nn.functional as F


def from_zero(model, batches):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for i, (x, y) in enumerate(batches):
        (F.mse_loss(model(x), y) / 3).backward()
        if i % 3 == 0:
            optimizer.step()
            optimizer.zero_grad()


def by_a_counter(model, batches):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    n = 0
    for x, y in batches:
        (F.mse_loss(model(x), y) / 3).backward()
        if n % 3 == 0:
            optimizer.step()
            optimizer.zero_grad()
        n += 1


def with_the_same_remainder(model, batches):  # no fix
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for i, (x, y) in enumerate(batches):
        divisor = 3 if i % 3 else 1
        (F.mse_loss(model(x), y) / divisor).backward()
        if i % 3 == 0:
            optimizer.step()
            optimizer.zero_grad()
