import torch
from rows import unit_rows
from torch import nn


class Pairs(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(4, 3)

    def forward(self, x):
        h = torch.tanh(self.lin(x))
        return unit_rows(h).sum(1)


def main():
    net = Pairs()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for x in torch.randn(5, 8, 4):
        optimizer.zero_grad()
        net(x).mean().backward()
        optimizer.step()


if __name__ == "__main__":
    main()
