"""A value that is not finite is made inside of a model: the module is named, with its line."""

import torch
from torch import nn

torch.manual_seed(0)


class Entropy(nn.Module):
    def forward(self, x):
        share = x / x.sum(1, keepdim=True)
        return (share * share.log()).sum(1)  # seen: nonfinite-value (`pool.entropy` (`Entropy`))


class Pool(nn.Module):
    def __init__(self):
        super().__init__()
        self.entropy = Entropy()

    def forward(self, x):
        return self.entropy(x)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(4, 8)
        self.pool = Pool()

    def forward(self, x):
        return self.pool(torch.relu(self.body(x)))


model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(5):
    optimizer.zero_grad()
    model(torch.randn(8, 4)).mean().backward()
    optimizer.step()
