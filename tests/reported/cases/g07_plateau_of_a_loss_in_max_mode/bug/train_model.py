import math

import torch
from torch import nn
from torch.optim.lr_scheduler import ReduceLROnPlateau


class TrainModel:
    """Trains and validates a sequence model, saving the best one seen so far."""

    def __init__(self, model, sampler, loss_criterion, optimizer_class, optimizer_kwargs,
                 batch_size=32, max_steps=300, check_every=20, held_out=128):
        self.model = model
        self.sampler = sampler
        self.criterion = loss_criterion
        self.optimizer = optimizer_class(self.model.parameters(), **optimizer_kwargs)
        self.batch_size = batch_size
        self.max_steps = max_steps
        self.check_every = check_every
        self.held_out = held_out
        self.history = []
        self._draw_validation()

    def _draw_validation(self):
        self._validation = self.sampler.sample(self.held_out)

    def fit(self):
        lowest = math.inf
        scheduler = ReduceLROnPlateau(self.optimizer, "max", patience=1, factor=0.5)
        for step in range(self.max_steps):
            self.train()
            if step and step % self.check_every == 0:
                validation_loss = self.validate()
                self.history.append((validation_loss, self.optimizer.param_groups[0]["lr"]))
                scheduler.step(validation_loss)
                if validation_loss < lowest:
                    lowest = validation_loss
        return lowest

    def train(self):
        self.model.train()
        inputs, targets = self.sampler.sample(self.batch_size)
        loss = self.criterion(self.model(inputs), targets)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()

    def validate(self):
        self.model.eval()
        inputs, targets = self._validation
        with torch.no_grad():
            return self.criterion(self.model(inputs), targets).item()
