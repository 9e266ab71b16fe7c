import torch
import torch.nn as nn

class VolumeTrainer:
    def __init__(self, model, optimizer, scheduler, loss, loaders, device, max_epochs=100, validate_every=100):
        self.model = model
        self.optimizer = optimizer
        self.scheduler = scheduler
        self.loss = loss
        self.loaders = loaders
        self.device = device
        self.max_epochs = max_epochs
        self.validate_every = validate_every
        self.iterations = 1
        self.best = float("inf")

    def run(self):
        for _ in range(self.max_epochs):
            self.train(self.loaders["train"])

    def train(self, loader):
        self.model.train()
        for image, target in loader:
            output, loss = self._loss_of(image.to(self.device), target.to(self.device))
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            if self.iterations % self.validate_every == 0:
                score = self.validate(self.loaders["val"])
                self.scheduler.step(score)
                if score < self.best:
                    self.best = score
                    torch.save(self.model.state_dict(), "best.pytorch")
            self.iterations += 1

    def validate(self, loader):
        total = 0.0
        with torch.no_grad():
            for image, target in loader:
                output, loss = self._loss_of(image.to(self.device), target.to(self.device))
                total += loss.item()
        return total / len(loader)

    def _loss_of(self, image, target):
        output = self.model(image)
        return output, self.loss(output, target)
