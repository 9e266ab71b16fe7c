import torch
from torch import nn

from weighting import AdaptiveWeights


class SharedTrunk(nn.Module):
    def __init__(self, dim=12, hidden=24, tasks=3):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(dim, hidden), nn.ReLU())
        self.heads = nn.ModuleList(nn.Linear(hidden, 1) for _ in range(tasks))

    def shared_parameters(self):
        return list(self.trunk.parameters())

    def forward(self, x):
        z = self.trunk(x)
        return torch.cat([head(z) for head in self.heads], 1)


def task_losses(model, x, y):
    return (model(x) - y).pow(2).mean(0)


def main(steps=60):
    torch.manual_seed(1)
    x = torch.randn(200, 12)
    y = 20 * x[:, :3] + x[:, 3:6].pow(2)
    model = SharedTrunk()
    weights = AdaptiveWeights(3, clip=0.5)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(steps):
        losses = task_losses(model, x, y)
        optimizer.zero_grad()
        weights.backward(losses, model.shared_parameters())
        optimizer.step()
        with torch.no_grad():
            weights.update(task_losses(model, x, y))
    print("losses", [round(v, 3) for v in losses.tolist()])
    return model


if __name__ == "__main__":
    main()
