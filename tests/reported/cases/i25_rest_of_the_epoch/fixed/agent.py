import torch
import torch.nn as nn
import torch.nn.functional as F

class Agent:
    def __init__(self, config, model, train_loader):
        self.config = config
        self.model = model
        self.train_loader = train_loader
        self.optimizer = torch.optim.Adam(model.parameters(), lr=config.lr)
        self.steps = 0

    def loss_of(self, batch):
        logits = self.model(batch["src"], batch["tgt"][:, :-1])
        return F.cross_entropy(logits.flatten(0, 1), batch["tgt"][:, 1:].flatten(), ignore_index=0)

    def run_epoch(self):
        self.model.train()
        self.optimizer.zero_grad()
        collected = 0
        last = len(self.train_loader) - 1
        for number, batch in enumerate(self.train_loader):
            size = batch["src"].size(0)
            loss = self.loss_of(batch) * float(size) / float(self.config.samples_per_step)
            loss.backward()
            collected += size
            if collected >= self.config.samples_per_step or number == last:
                torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.config.clip)
                self.optimizer.step()
                self.optimizer.zero_grad()
                collected = 0
                self.steps += 1

    def train(self):
        for epoch in range(self.config.num_epochs):
            self.run_epoch()
