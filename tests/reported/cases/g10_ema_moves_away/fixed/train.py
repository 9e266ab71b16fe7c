import torch
from torch import nn

from ema import WeightAverage


class LowRank(nn.Module):
    def __init__(self, dim=16, rank=4):
        super().__init__()
        self.base = nn.Linear(dim, dim)
        self.base.requires_grad_(False)
        self.down = nn.Linear(dim, rank, bias=False)
        self.up = nn.Linear(rank, dim, bias=False)
        nn.init.zeros_(self.up.weight)

    def forward(self, x):
        return self.base(x) + self.up(self.down(x))


def save_step(net, average, x, y):
    average.apply()
    with torch.no_grad():
        loss = (net(x) - y).pow(2).mean().item()
    average.restore()
    return loss


def main(steps=300):
    torch.manual_seed(0)
    net = LowRank()
    params = [p for p in net.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(params, lr=3e-3)
    average = WeightAverage(params, decay=0.99)
    x = torch.randn(256, 16)
    y = net.base(x) + x.roll(1, 1)
    for step in range(steps):
        i = torch.randint(256, (32,))
        loss = (net(x[i]) - y[i]).pow(2).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        average.update()
        if step % 100 == 99:
            print(f"step {step} loss {loss.item():.4f} averaged {save_step(net, average, x, y):.4f}")
    return params, average


if __name__ == "__main__":
    main()
