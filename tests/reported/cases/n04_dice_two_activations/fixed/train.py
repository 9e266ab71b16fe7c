import torch
from torch import nn

from losses.dice import DiceLoss


def main():
    net = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 3, 1))
    criterion = DiceLoss(ignore=0)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    for _ in range(20):
        image, label = torch.randn(4, 1, 16, 16), torch.randint(0, 3, (4, 16, 16))
        optimizer.zero_grad()
        loss = criterion(net(image), label)
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main()
