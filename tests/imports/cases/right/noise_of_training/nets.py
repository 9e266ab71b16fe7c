from torch import nn
from aug import WordDrop


class Net2(nn.Module):
    def __init__(self):
        super().__init__()
        self.drop = WordDrop(0.2)
        self.a = nn.Linear(8, 8)

    def forward(self, x):
        if self.training:
            x = self.drop(x)
        return self.a(x)
