"""Networks that make parts of themselves while they run: once, for each batch, or for an optimizer of their own."""
import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(12)


class Fresh(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 8)

    def forward(self, x):
        """A new head for each batch."""
        h = self.first(x).relu()
        h = nn.LayerNorm(8)(h)  # verify: module-created-in-forward confirmed
        head = nn.Linear(8, 1)  # verify: module-created-in-forward confirmed
        scale = nn.Parameter(torch.ones(1))  # verify: module-created-in-forward confirmed
        return head(h) * scale


class Lazy(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 8)
        self.head = None

    def forward(self, x):
        h = self.first(x).relu()
        if self.head is None:
            self.head = nn.Linear(h.shape[-1], 1)  # verify: module-created-in-forward refuted
        return self.head(h)


class Growing(nn.Module):
    """Adds a column when it is told to, and hands it to the optimizer."""

    def __init__(self):
        super().__init__()
        self.columns = nn.ModuleList([nn.Linear(4, 1)])
        self.optimizer = torch.optim.SGD(self.parameters(), lr=0.01)

    def forward(self, x, grow=False):
        if grow:
            self.columns.append(nn.Linear(4, 1))  # verify: module-created-in-forward inconclusive
            self.optimizer.add_param_group({"params": self.columns[-1].parameters()})
        return sum(column(x) for column in self.columns)


class Inner(nn.Module):
    """Fits a line to its input on each call, with an optimizer of its own."""

    def __init__(self):
        super().__init__()
        self.out = nn.Linear(1, 1)

    def forward(self, x):
        slope = nn.Parameter(torch.zeros(4))  # verify: module-created-in-forward refuted, says inconclusive
        inner = torch.optim.SGD([slope], lr=0.1)
        for _ in range(2):
            inner.zero_grad()
            (x @ slope).pow(2).mean().backward()
            inner.step()
        return self.out((x @ slope.detach())[:, None])


models = [Fresh(), Lazy(), Lazy(), Growing(), Inner()]
optimizers = [torch.optim.SGD(model.parameters(), lr=0.01) for model in models[:3]]
optimizers += [models[3].optimizer, torch.optim.SGD(models[4].parameters(), lr=0.01)]
for step in range(6):
    for model, optimizer in zip(models, optimizers):
        extra = {"grow": step % 2 == 1} if isinstance(model, Growing) else {}
        loss = (model(torch.randn(8, 4), **extra) - 1).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
