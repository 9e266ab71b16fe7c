"""Statements without an effect in a small classifier, beside some that look alike and have one."""
import torch
from torch import nn
from torch.nn import functional as F

torch.set_num_threads(1)
torch.manual_seed(5)


class Batch:
    """As of libraries for graphs: it moves itself."""

    def __init__(self, x, y):
        self.x, self.y = x, y

    def double(self):
        self.x = self.x.double()
        return self


class Running(torch.Tensor):
    """A tensor that scales itself when it is asked to be clamped."""

    def clamp(self, *bounds):
        return self.clamp_(*bounds)


encoder = nn.Linear(6, 8)
head = nn.Linear(8, 3).double()
optimizer = torch.optim.Adam([*encoder.parameters(), *head.parameters()])
running = torch.ones(4).as_subclass(Running)

for step in range(8):
    batch = Batch(torch.randn(16, 6), torch.randint(3, (16,)))
    encoder.double()  # verify: discarded-result refuted
    batch.double()  # verify: discarded-result refuted, says inconclusive
    running += 1
    running.clamp(0, 5)  # verify: discarded-result inconclusive
    optimizer.zero_grad
    features = encoder(batch.x)
    features.clamp(0)  # verify: discarded-result confirmed
    scores = head(features)
    scores.softmax(1).detach()  # verify: discarded-result confirmed, unseen by the linter
    loss = F.cross_entropy(scores, batch.y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step  # verify: uncalled-method confirmed
    print(step, loss.item())
