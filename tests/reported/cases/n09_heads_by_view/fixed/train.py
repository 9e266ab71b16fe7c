import torch
from torch import nn

from attn import AttentionLayer, FullAttention


class Forecaster(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Linear(7, 32)
        self.attention = AttentionLayer(FullAttention(), 32, 4)
        self.head = nn.Linear(32, 7)

    def forward(self, x):
        h = self.embed(x)
        h = h + self.attention(h, h, h)
        return self.head(h)[:, -12:]


def main():
    model = Forecaster()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    criterion = nn.MSELoss()
    for _ in range(30):
        x, y = torch.randn(8, 48, 7), torch.randn(8, 12, 7)
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main()
