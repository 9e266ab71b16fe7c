"""Trainings that keep graphs; after the fixes none is alive behind them, though what was kept is."""

import torch
import torch.nn.functional as F


def losses_in_a_list(model, batches):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    history = []
    for x, y in batches:
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        history.append(loss)
    return history


def skipped_batches(model, loader):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    total = torch.zeros(())
    for x, y in loader:
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), y)
        if torch.isnan(loss):
            continue
        loss.backward()
        optimizer.step()
        total += loss
    return total


def kept_by_a_helper(model, batches):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    history = []
    for x, y in batches:
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        put(history, loss)
    return history


def put(history, value):
    history.append(value)


def entries(model, batches):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    by_number = {}
    for i, (x, y) in enumerate(batches):
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        by_number[i] = loss * len(x)
    return by_number


def two_parts(model, batches):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    running = 0
    for x, y in batches:
        optimizer.zero_grad()
        out = model(x)
        loss = F.mse_loss(out, y) + out.abs().mean()
        loss.backward()
        optimizer.step()
        running = running + loss
    return running
