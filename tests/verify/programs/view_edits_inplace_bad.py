"""An ablation of two feature corruptions, each of which is tried for a few steps."""
import torch
from torch import nn


class DropFirst(nn.Module):
    """Blanks the first unit of a tanh layer."""

    def __init__(self):
        super().__init__()
        self.lin, self.out = nn.Linear(8, 16), nn.Linear(16, 1)

    def forward(self, x):
        h = torch.tanh(self.lin(x))
        h[:, 0] = 0  # verify: inplace-on-saved-tensor confirmed
        return self.out(h)


class RescaledProduct(nn.Module):
    """Multiplies two projections and rescales one of them for a skip connection."""

    def __init__(self):
        super().__init__()
        self.left, self.right, self.out = nn.Linear(8, 16), nn.Linear(8, 16), nn.Linear(16, 1)

    def forward(self, x):
        a, b = self.left(x), self.right(x)
        mixed = a * b
        a.view(-1).mul_(0.5)  # verify: inplace-on-saved-tensor confirmed
        return self.out(mixed + a)


def fit(model, steps=12):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(steps):
        x = torch.randn(24, 8)
        loss = (model(x) - x.prod(dim=1, keepdim=True)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()


def main():
    torch.manual_seed(17)
    baseline = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
    for name, model in {"baseline": baseline, "drop": DropFirst(), "product": RescaledProduct()}.items():
        try:
            print(f"{name}: {fit(model):.4f}")
        except RuntimeError as error:
            print(f"{name}: failed ({type(error).__name__})")


if __name__ == "__main__":
    main()
