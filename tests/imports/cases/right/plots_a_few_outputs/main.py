import torch
from pictures import show_outputs
from torch import nn


def main():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.2), nn.Linear(8, 3))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    for x in torch.randn(30, 8, 4):
        optimizer.zero_grad()
        net(x).pow(2).mean().backward()
        optimizer.step()
    net.eval()
    show_outputs(net, torch.randn(3, 4))


if __name__ == "__main__":
    main()
