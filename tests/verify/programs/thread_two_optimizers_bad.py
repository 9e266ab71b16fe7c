"""An encoder and a probe trained in a background thread while the main thread waits."""
import queue
import threading

import torch
from torch import nn


class ProbeTrainer(threading.Thread):
    def __init__(self, results, steps=30):
        super().__init__(name="probe-trainer")
        self.results = results
        self.steps = steps
        self.encoder = nn.Sequential(nn.Linear(9, 32), nn.ReLU())
        self.probe = nn.Linear(32, 4)
        self.encoder_opt = torch.optim.Adam(self.encoder.parameters(), lr=1e-3)
        self.probe_opt = torch.optim.Adam(self.probe.parameters(), lr=1e-2)
        self.losses = []

    def run(self):
        for step in range(self.steps):
            x = torch.randn(32, 9)
            target = x[:, :4].argmax(dim=1)
            features = self.encoder(x)
            loss = nn.functional.cross_entropy(self.probe(features.detach()), target)
            self.encoder_opt.zero_grad()
            self.probe_opt.zero_grad()
            loss.backward()
            self.encoder_opt.step()  # verify: step-without-backward confirmed
            self.probe_opt.step()
            self.losses.append(loss)  # verify: undetached-accumulation confirmed
        self.results.put(torch.stack(self.losses).mean().item())


if __name__ == "__main__":
    torch.manual_seed(25)
    results = queue.Queue()
    trainer = ProbeTrainer(results)
    trainer.start()
    trainer.join()
    print(f"mean loss {results.get():.4f} over {len(trainer.losses)} steps")
