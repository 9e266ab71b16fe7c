import math

import torch
import torch.nn.functional as F


class BaseTrainer:
    """setup() builds optimizer and scheduler; train() calls it when it starts."""

    def __init__(self, model, train_loader, config):
        self.model = model
        self.train_loader = train_loader
        self.config = config
        self.optimizer = None
        self._resume_optimizer_state = None
        self.start_epoch = 0
        self.best_metric = float("inf")

    def _build_optimizer(self):
        decay, no_decay = [], []
        for param in self.model.parameters():
            (no_decay if param.ndim <= 1 else decay).append(param)
        groups = [{"params": decay, "weight_decay": self.config["weight_decay"]}, {"params": no_decay, "weight_decay": 0.0}]
        return torch.optim.AdamW(groups, lr=self.config["lr"])

    def setup(self):
        self.optimizer = self._build_optimizer()
        if self._resume_optimizer_state is not None:
            self.optimizer.load_state_dict(self._resume_optimizer_state)
        self.update_lr(self.start_epoch * len(self.train_loader))

    def update_lr(self, step):
        total = self.config["epochs"] * len(self.train_loader)
        lr = 0.5 * self.config["lr"] * (1 + math.cos(math.pi * step / total))
        for group in self.optimizer.param_groups:
            group["lr"] = lr

    def save(self, path, epoch):
        torch.save(
            {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict(), "epoch": epoch, "best_metric": self.best_metric},
            path,
        )

    def resume(self, path):
        checkpoint = torch.load(path, map_location="cpu")
        self.model.load_state_dict(checkpoint["model"])
        self._resume_optimizer_state = checkpoint.get("optimizer")
        self.start_epoch = checkpoint["epoch"] + 1
        self.best_metric = checkpoint.get("best_metric", self.best_metric)

    def train(self, stop_after=None):
        self.setup()
        last = self.config["epochs"] if stop_after is None else stop_after
        for epoch in range(self.start_epoch, last):
            self.model.train()
            running = 0.0
            for i, (images, targets) in enumerate(self.train_loader):
                self.update_lr(epoch * len(self.train_loader) + i)
                loss = F.cross_entropy(self.model(images), targets)
                self.optimizer.zero_grad(set_to_none=True)
                loss.backward()
                self.optimizer.step()
                running += loss.item()
            running /= len(self.train_loader)
            self.best_metric = min(self.best_metric, running)
            print(f"epoch {epoch} loss {running:.4f} lr {self.optimizer.param_groups[0]['lr']:.2e}")
            self.save(self.config["checkpoint"], epoch)
