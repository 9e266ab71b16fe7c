import math

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self, vocab=100, width=32):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.mix = nn.GRU(width, width, batch_first=True)
        self.out = nn.Linear(width, vocab)

    def forward(self, ids):
        h, _ = self.mix(self.embed(ids))
        return self.out(h)


class Trainer:
    def __init__(self, model, data, batch_size=8):
        self.model = model
        self.loader = DataLoader(data, batch_size=batch_size, shuffle=True)
        self.eval_loader = DataLoader(data, batch_size=batch_size)
        self.loss_fn = nn.CrossEntropyLoss()
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

    def train(self, epochs):
        for epoch in range(epochs):
            self.model.train()
            for (ids,) in self.loader:
                logits = self.model(ids[:, :-1])
                loss = self.loss_fn(logits.flatten(0, 1), ids[:, 1:].flatten())
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
            print(epoch, self.evaluate())

    def evaluate(self):
        self.model.eval()
        eval_loss = 0.0
        perplexity = 0.0
        eval_steps = 0
        for (ids,) in self.eval_loader:
            with torch.no_grad():
                logits = self.model(ids[:, :-1])
                loss = self.loss_fn(logits.flatten(0, 1), ids[:, 1:].flatten())
            eval_loss += loss.item()
            eval_steps += 1
            eval_loss /= eval_steps
            perplexity = math.exp(eval_loss)
        return eval_loss, perplexity


if __name__ == "__main__":
    Trainer(Net(), TensorDataset(torch.randint(0, 100, (64, 16)))).train(2)
