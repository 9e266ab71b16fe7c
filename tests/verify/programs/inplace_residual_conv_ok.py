"""A small residual convolutional network that saves memory with in-place operations."""
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)

    def forward(self, x):
        out = self.bn1(self.conv1(x))
        out.relu_()  # verify: inplace-on-saved-tensor refuted
        out = self.bn2(self.conv2(out))
        out += x  # verify: inplace-on-saved-tensor refuted
        return torch.relu_(out)


class ResNet(nn.Module):
    def __init__(self, width=8, depth=2, classes=3):
        super().__init__()
        self.stem = nn.Conv2d(2, width, 3, padding=1)
        self.blocks = nn.Sequential(*[Block(width) for _ in range(depth)])
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        return self.head(self.blocks(self.stem(x)).mean(dim=(2, 3)))


def main():
    torch.manual_seed(60)
    net = ResNet()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4)
    history = []
    for step in range(18):
        x = torch.randn(12, 2, 8, 8)
        y = torch.randint(0, 3, (12,))
        x += y.view(-1, 1, 1, 1) * 0.5
        loss = nn.functional.cross_entropy(net(x), y, label_smoothing=0.1)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        history.append(loss.item())
        torch.cuda.empty_cache()  # verify: empty-cache-in-loop inconclusive
    print("first %.4f last %.4f" % (history[0], history[-1]))


if __name__ == "__main__":
    main()
