"""A Trainer class with a train and a validation step, and a history of metrics."""
from collections import defaultdict

import torch
from torch import nn


class Trainer:
    def __init__(self, model, lr=0.01, scaler=None, debug=False):
        self.model = model
        self.optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
        self.criterion = nn.MSELoss()
        self.scaler = scaler
        self.debug = debug
        self.history = defaultdict(list)

    def train_step(self, batch):
        x, y = batch
        self.optimizer.zero_grad()
        loss = self.criterion(self.model(x), y)
        if self.scaler is not None:
            self.scaler.scale(loss).backward()
        self.optimizer.step()  # verify: step-without-backward confirmed
        return loss

    @torch.no_grad()
    def validation_step(self, batch):
        x, y = batch
        return self.criterion(self.model(x), y)

    def fit(self, train_batches, val_batches, epochs):
        torch.autograd.set_detect_anomaly(self.debug)  # verify: anomaly-detection-left-on refuted
        for epoch in range(epochs):
            self.model.train()
            for batch in train_batches:
                loss = self.train_step(batch)
                self.history["train_loss"].append(loss)  # verify: undetached-accumulation confirmed
            self.model.eval()
            val = sum(self.validation_step(b).item() for b in val_batches) / len(val_batches)
            self.history["val_loss"].append(val)
            print(f"epoch {epoch}: val {val:.4f}")


def batches(n, generator):
    weight = torch.tensor([[1.0], [-2.0], [0.5], [3.0]])
    for _ in range(n):
        x = torch.randn(32, 4, generator=generator)
        yield x, x @ weight


if __name__ == "__main__":
    torch.manual_seed(2)
    g = torch.Generator().manual_seed(7)
    model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 1))
    trainer = Trainer(model)
    trainer.fit(list(batches(10, g)), list(batches(3, g)), epochs=3)
    print(len(trainer.history["train_loss"]), "train losses")
