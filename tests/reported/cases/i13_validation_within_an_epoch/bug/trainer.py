import torch
import torch.nn.functional as F

class Trainer:
    def __init__(self, model, optimizer, train_loader, val_loader, last_iteration, validate_every=None):
        self.model = model
        self.optimizer = optimizer
        self.train_loader = train_loader
        self.val_loader = val_loader
        self.last_iteration = last_iteration
        self.validate_every = validate_every or len(train_loader)
        self.done = 0
        self.epoch = 0
        self.best_loss = float("inf")

    def validate(self):
        self.model.eval()
        val_loss = 0.0
        with torch.no_grad():
            for data, target in self.val_loader:
                val_loss += F.cross_entropy(self.model(data.cuda()), target.cuda()).item()
        val_loss /= len(self.val_loader)
        if val_loss < self.best_loss:
            self.best_loss = val_loss
            torch.save(self.model.state_dict(), "best.pth.tar")

    def train_epoch(self):
        self.model.train()
        for number, (data, target) in enumerate(self.train_loader):
            self.done = number + self.epoch * len(self.train_loader)
            if self.done % self.validate_every == 0:
                self.validate()
            self.optimizer.zero_grad()
            loss = F.cross_entropy(self.model(data.cuda()), target.cuda())
            loss.backward()
            self.optimizer.step()
            if self.done >= self.last_iteration:
                break

    def train(self):
        epochs = -(-self.last_iteration // len(self.train_loader))
        for epoch in range(epochs):
            self.epoch = epoch
            self.train_epoch()
