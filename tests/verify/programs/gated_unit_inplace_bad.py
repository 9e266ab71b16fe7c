"""A highway-like network with a gated residual block, trained on random projections."""
import torch
from torch import nn


class GatedBlock(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.gate = nn.Linear(dim, dim)
        self.transform = nn.Linear(dim, dim)

    def forward(self, x):
        gate = torch.sigmoid(self.gate(x))
        update = torch.relu(self.transform(x))
        gate += 0.1  # verify: inplace-on-saved-tensor confirmed
        return gate * update + (1.1 - gate) * x


class Highway(nn.Module):
    def __init__(self, dim=16, depth=3):
        super().__init__()
        self.blocks = nn.ModuleList(GatedBlock(dim) for _ in range(depth))
        self.out = nn.Linear(dim, 1)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.out(x)


def main():
    torch.manual_seed(14)
    model = Highway()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, nesterov=True, momentum=0.9)
    projection = torch.randn(16, 1)
    for step in range(20):
        x = torch.randn(32, 16)
        loss = nn.functional.l1_loss(model(x), torch.tanh(x @ projection))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(step, loss.item())


if __name__ == "__main__":
    main()
