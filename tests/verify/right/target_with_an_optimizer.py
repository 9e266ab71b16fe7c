"""Each network makes an optimizer; that of the target is never stepped. A writer answers to any name."""

import torch
import torch.nn.functional as F


class Q(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(3, 1)
        self.optimizer = torch.optim.Adam(self.parameters(), lr=1e-3)

    def forward(self, x):
        return self.fc(x)


class Writer:
    def __getattr__(self, name):
        return lambda *values: None


def target(q, x):
    with torch.no_grad():
        return 1 + 0.9 * q(x)


torch.manual_seed(0)
q, slow, writer = Q(), Q(), Writer()
slow.load_state_dict(q.state_dict())
for step in range(40):
    x = torch.randn(16, 3)
    loss = F.smooth_l1_loss(q(x), target(slow, x))
    q.optimizer.zero_grad()
    loss.backward()
    q.optimizer.step()
    writer.add_scalar("loss", loss.item(), step)
    for a, b in zip(slow.parameters(), q.parameters(), strict=True):
        a.data.copy_(a.data * 0.99 + b.data * 0.01)
