import torch
import torch.nn.functional as F
from torch import nn


class Snapshot:
    def __init__(self, x, adjacency, y):
        self.x, self.adjacency, self.y = x, adjacency, y


def snapshots(count, nodes=20, lags=4):
    for _ in range(count):
        adjacency = torch.rand(nodes, nodes).softmax(1)
        yield Snapshot(torch.randn(nodes, lags), adjacency, torch.randn(nodes))


class RecurrentGCN(nn.Module):
    def __init__(self, node_features):
        super().__init__()
        self.mix = nn.Linear(node_features, 32)
        self.linear = nn.Linear(32, 1)

    def forward(self, x, adjacency):
        h = F.relu(adjacency @ self.mix(x))
        return self.linear(h)


def train(epochs=5):
    model = RecurrentGCN(node_features=4)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    model.train()
    for _ in range(epochs):
        cost = 0
        time = -1
        for time, snapshot in enumerate(snapshots(10)):
            y_hat = model(snapshot.x, snapshot.adjacency)
            cost = cost + torch.mean((y_hat.squeeze(1) - snapshot.y) ** 2)
        cost = cost / (time + 1)
        cost.backward()
        optimizer.step()
        optimizer.zero_grad()
    return model


if __name__ == "__main__":
    train()
