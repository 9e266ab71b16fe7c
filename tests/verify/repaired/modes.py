"""Trainings in the mode that an evaluation has left; after the fixes each step is computed in training mode."""

import torch
import torch.nn.functional as F
from torch import nn


def build():
    return nn.Sequential(nn.Linear(3, 8), nn.Dropout(0.5), nn.Linear(8, 1))


def validate(model, held_out):
    model.eval()
    with torch.no_grad():
        return sum(F.mse_loss(model(x), y).item() for x, y in held_out)


def after_each_epoch(batches, held_out):
    model = build()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    model.train()
    for _ in range(3):
        for x, y in batches:
            optimizer.zero_grad()
            F.mse_loss(model(x), y).backward()
            optimizer.step()
        print(validate(model, held_out))


def before_each_epoch(batches, held_out):
    model = build()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    model.train()
    for _ in range(3):
        print(validate(model, held_out))
        for x, y in batches:
            optimizer.zero_grad()
            F.mse_loss(model(x), y).backward()
            optimizer.step()


def every_fourth_batch(batches, held_out):
    model = build()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    model.train()
    for i, (x, y) in enumerate(batches):
        if i % 4 == 0:
            print(validate(model, held_out))
        optimizer.zero_grad()
        F.mse_loss(model(x), y).backward()
        optimizer.step()


def every_fourth_batch_in_place(batches, held_out):
    model = build()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    model.train()
    for _ in range(2):
        for i, (x, y) in enumerate(batches):
            if i % 4 == 3:
                model.eval()
                with torch.no_grad():
                    for a, b in held_out:
                        print(F.mse_loss(model(a), b))
            if len(x) == 0:
                continue
            optimizer.zero_grad()
            loss = F.mse_loss(model(x), y)
            loss.backward()
            optimizer.step()


def after_the_step(batches, held_out):
    model = build()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    model.train()
    for i, (x, y) in enumerate(batches):
        optimizer.zero_grad()
        F.mse_loss(model(x), y).backward()
        optimizer.step()
        if i == 3:
            continue
        if i % 2 == 0:
            print(validate(model, held_out))


def between_two_trainings(batches, held_out):
    model = build()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    model.train()
    for epoch in range(4):
        for x, y in batches:
            optimizer.zero_grad()
            F.mse_loss(model(x), y).backward()
            optimizer.step()
        if epoch % 2:
            print(validate(model, held_out))
        for x, y in batches:
            optimizer.zero_grad()
            F.l1_loss(model(x), y).backward()
            optimizer.step()


class Trainer:
    def __init__(self, batches, held_out):
        self.model = build()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)
        self.batches, self.held_out = batches, held_out

    def fit(self):
        for i, (x, y) in enumerate(self.batches):
            if i % 3 == 2:
                self.check()
            self.optimizer.zero_grad()
            F.mse_loss(self.model(x), y).backward()
            self.optimizer.step()

    def check(self):
        self.model.eval()
        with torch.no_grad():
            print(sum(F.mse_loss(self.model(x), y).item() for x, y in self.held_out))


def in_a_class(batches, held_out):
    Trainer(batches, held_out).fit()
