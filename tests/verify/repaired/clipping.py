"""Trainings that clip in vain, with a bound of 0.1; after the fixes each step takes gradients of that size."""

import torch
import torch.nn.functional as F
from torch.nn.utils import clip_grad_norm_


def before_the_backward(model, batches):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for x, y in batches:
        optimizer.zero_grad()
        clip_grad_norm_(model.parameters(), 0.1)
        F.mse_loss(model(x), y).mul(100).backward()
        optimizer.step()


def after_the_step(model, loader):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for x, y in loader:
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), y) * 100
        if torch.isnan(loss):
            continue
        loss.backward()
        optimizer.step()
        clip_grad_norm_(model.parameters(), 0.1)


def two_steps(model, batches):  # no fix
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for x, y in batches:
        optimizer.zero_grad()
        clip_grad_norm_(model.parameters(), 0.1)
        F.mse_loss(model(x), y).mul(100).backward()
        optimizer.step()
        optimizer.zero_grad()
        F.l1_loss(model(x), y).mul(100).backward()
        optimizer.step()


def scaled(model, batches):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    for x, y in batches:
        optimizer.zero_grad()
        scaler.scale(F.mse_loss(model(x), y) * 100).backward()
        clip_grad_norm_(model.parameters(), 0.1)
        scaler.step(optimizer)
        scaler.update()


def scaled_and_refused(model, loader):  # no fix
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    for x, y in loader:
        optimizer.zero_grad()
        scaler.scale(F.mse_loss(model(x), y) * 100).backward()
        norm = clip_grad_norm_(model.parameters(), 0.1)
        if not torch.isfinite(norm):
            continue
        scaler.step(optimizer)
        scaler.update()
