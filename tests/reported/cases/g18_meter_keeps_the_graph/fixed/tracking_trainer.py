from collections import OrderedDict

import torch

from stats import AverageMeter


class TrackingTrainer:
    def __init__(self, actor, loaders, optimizer, every=10):
        self.actor = actor
        self.loaders = loaders
        self.optimizer = optimizer
        self.every = every
        self.stats = OrderedDict({name: None for name in loaders})
        self.epoch = 0

    def run_loader(self, name, loader, training):
        self.actor.train(training)
        torch.set_grad_enabled(training)
        for i, data in enumerate(loader, 1):
            loss, stats = self.actor(data)
            if training:
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
            self._record(stats, len(data[0]), name)
            if i % self.every == 0:
                text = ", ".join(f"{k}: {float(v.avg):.4f}" for k, v in self.stats[name].items())
                print(f"[{name}: {self.epoch}, {i}/{len(loader)}] {text}")
        torch.set_grad_enabled(True)

    def _record(self, values, batch_size, name):
        if self.stats[name] is None:
            self.stats[name] = OrderedDict({key: AverageMeter() for key in values})
        for key, val in values.items():
            if key not in self.stats[name]:
                self.stats[name][key] = AverageMeter()
            if torch.is_tensor(val):
                val = val.detach().item()
            self.stats[name][key].update(val, batch_size)

    def train(self, max_epochs):
        for self.epoch in range(1, max_epochs + 1):
            for name, loader in self.loaders.items():
                self.run_loader(name, loader, training=name == "train")
