import math

import torch
from torch.utils.data import DataLoader
from transformers import get_linear_schedule_with_warmup


class PairTrainer:
    def __init__(self, model, loss_fn, num_epochs=3, batch_size=16, warmup_proportion=0.1):
        self.model = model
        self.loss_fn = loss_fn
        self.num_epochs = num_epochs
        self.batch_size = batch_size
        self.warmup_proportion = warmup_proportion

    def train(self, train_examples):
        train_dataloader = DataLoader(train_examples, shuffle=True, batch_size=self.batch_size)
        train_steps = len(train_dataloader)
        warmup_steps = math.ceil(train_steps * self.warmup_proportion)
        optimizer = torch.optim.AdamW(self.model.parameters(), lr=2e-5)
        scheduler = get_linear_schedule_with_warmup(optimizer, warmup_steps, train_steps)
        self.model.train()
        for epoch in range(self.num_epochs):
            for batch, target in train_dataloader:
                optimizer.zero_grad()
                loss = self.loss_fn(self.model(batch), target)
                loss.backward()
                torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
                optimizer.step()
                scheduler.step()
