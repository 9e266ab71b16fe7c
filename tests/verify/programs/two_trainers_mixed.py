"""Two threads, each with a model and an optimizer of its own; one of them keeps the losses of its short epochs."""
import threading

import torch
from torch import nn


def fit(seed):
    generator = torch.Generator().manual_seed(seed)
    model = nn.Linear(5, 5)
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    for _ in range(18):
        x = torch.randn(8, 5, generator=generator)
        loss = (model(x) - x.flip(1)).pow(2).mean()
        opt.zero_grad()
        loss.backward()  # verify: missing-zero-grad refuted
        opt.step()


class Watched:
    def __init__(self, seed):
        self.generator = torch.Generator().manual_seed(seed)
        self.model = nn.Linear(5, 5)
        self.opt = torch.optim.Adam(self.model.parameters(), lr=1e-3)
        self.history = {"train": []}

    def fit(self):
        for _ in range(4):
            for _ in range(5):
                x = torch.randn(8, 5, generator=self.generator)
                loss = (self.model(x) - x.flip(1)).pow(2).mean()
                self.opt.zero_grad()
                loss.backward()  # verify: missing-zero-grad refuted
                self.opt.step()
                self.history["train"].append(loss)  # verify: undetached-accumulation confirmed


threads = [threading.Thread(target=fit, args=(1,)), threading.Thread(target=Watched(2).fit)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
