import torch
from scores import error
from torch import nn


def main():
    torch.manual_seed(0)
    batches = [(torch.randn(8, 4), torch.randn(8, 1)) for _ in range(10)]
    net = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.2), nn.Linear(8, 1))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    for epoch in range(3):
        net.train()
        for x, y in batches[:7]:
            optimizer.zero_grad()
            (net(x) - y).pow(2).mean().backward()
            optimizer.step()
        net.eval()
        print(epoch, error(net, batches[7:]))


if __name__ == "__main__":
    main()
