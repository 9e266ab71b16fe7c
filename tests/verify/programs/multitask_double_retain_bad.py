"""Two task heads on a shared trunk; the two losses are backpropagated one after the other."""
import torch
from torch import nn
from torch.nn import functional as F


class TwoHeads(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(12, 48), nn.ReLU(), nn.Linear(48, 48), nn.ReLU())
        self.classify = nn.Linear(48, 3)
        self.regress = nn.Linear(48, 1)

    def forward(self, x):
        h = self.trunk(x)
        return self.classify(h), self.regress(h).squeeze(-1)


def sample(n=32):
    x = torch.randn(n, 12)
    return x, x[:, :3].argmax(dim=1), x.sum(dim=1)


def main():
    torch.manual_seed(11)
    model = TwoHeads()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    stats = {"cls": 0.0, "reg": 0.0}
    for i in range(30):
        x, label, value = sample()
        logits, pred = model(x)
        loss_cls = F.cross_entropy(logits, label)
        loss_reg = 0.1 * F.mse_loss(pred, value)
        optimizer.zero_grad()
        loss_cls.backward(retain_graph=True)  # verify: retain-graph-in-loop refuted
        loss_reg.backward(retain_graph=True)  # verify: retain-graph-in-loop confirmed
        optimizer.step()
        stats["cls"] += loss_cls.item()
        stats["reg"] += loss_reg.item()
    print({k: round(v / 30, 4) for k, v in stats.items()})


if __name__ == "__main__":
    main()
