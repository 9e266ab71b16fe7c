import torch
import torch.nn as nn
import torch.nn.functional as F

class Recipe:
    def __init__(self, config):
        self.model = nn.Sequential(nn.Embedding(config.vocab, config.dim), nn.Linear(config.dim, config.vocab))
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=config.lr)
        self.schedule = torch.optim.lr_scheduler.LinearLR(self.optimizer, 1.0, 0.1, config.steps)
        self.last_step = config.steps
        self.current_step = 0

    def accumulate(self, inputs, labels):
        logits = self.model(inputs)
        loss = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-100)
        loss.backward()
        return loss

    def train_step(self, batch):
        loss = self.accumulate(batch["tokens"], batch["labels"])
        print(self.current_step, "Loss:", loss.item())
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.schedule.step()

    def train(self, loader):
        self.model.train()
        for batch in loader:
            self.train_step(batch)
            self.current_step += 1
            if self.current_step >= self.last_step:
                break
