from blocks import Block
from torch import nn


class Net(nn.Module):
    def __init__(self, depth=3):
        super().__init__()
        self.blocks = [Block(4) for _ in range(depth)]
        self.head = nn.Linear(4, 2)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(x)


print(sum(parameter.numel() for parameter in Net().parameters()))
