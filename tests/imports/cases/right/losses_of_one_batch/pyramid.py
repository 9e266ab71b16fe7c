from torch import nn


class Pyramid(nn.Module):
    def __init__(self, depth):
        super().__init__()
        self.convs = nn.ModuleList([nn.Conv2d(1, 1, 3, padding=1) for _ in range(depth)])
        self.pool = nn.AvgPool2d(2)

    def levels(self, x):
        for conv in self.convs:
            yield x, conv(x)
            x = self.pool(x)
