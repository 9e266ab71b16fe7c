"""A callback based loop that reads its data with two worker processes."""
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Waves(Dataset):
    def __len__(self):
        return 192

    def __getitem__(self, index):
        g = torch.Generator().manual_seed(index)
        phase = torch.rand(1, generator=g)
        t = torch.linspace(0, 1, 16)
        return torch.sin(6.28 * (t + phase)), phase


class Hook:
    def after_backward(self, engine): ...
    def after_step(self, engine): ...


class GradReset(Hook):
    def after_backward(self, engine):
        engine.optimizer.zero_grad()  # verify: cleared-before-step confirmed


class Log(Hook):
    def __init__(self):
        self.entries = []

    def after_step(self, engine):
        self.entries.append({"step": engine.step, "loss": engine.loss})  # verify: undetached-accumulation confirmed, unseen by the linter


class Engine:
    def __init__(self, model, hooks):
        self.model, self.hooks, self.step = model, hooks, 0
        self.optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    def emit(self, event):
        for hook in self.hooks:
            getattr(hook, event)(self)

    def fit(self, loader, epochs):
        for _ in range(epochs):
            for x, target in loader:
                self.loss = nn.functional.mse_loss(self.model(x), target)
                self.loss.backward()
                self.emit("after_backward")
                self.optimizer.step()
                self.step += 1
                self.emit("after_step")  # verify: undetached-accumulation confirmed


if __name__ == "__main__":
    torch.manual_seed(37)
    log = Log()
    engine = Engine(nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 1)), [GradReset(), log])
    engine.fit(DataLoader(Waves(), batch_size=12, num_workers=2, shuffle=True), epochs=1)
    print(len(log.entries), "steps, last loss", log.entries[-1]["loss"].item())
