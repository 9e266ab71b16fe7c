import torch
from torch import nn

from common import move_by_cage
from losses import AllLosses


class CageNet(nn.Module):
    def __init__(self, vertices=8, width=32):
        super().__init__()
        self.template = nn.Parameter(1.5 * torch.nn.functional.normalize(torch.randn(1, vertices, 3), dim=-1))
        self.encoder = nn.Sequential(nn.Linear(3, width), nn.ReLU(), nn.Linear(width, width))
        self.to_cage = nn.Linear(width, vertices * 3)
        self.to_shift = nn.Linear(2 * width, vertices * 3)

    def forward(self, source, target):
        s, t = self.encoder(source).max(1).values, self.encoder(target).max(1).values
        cage = self.template + 0.3 * self.to_cage(s).view(len(s), -1, 3)
        new_cage = cage + self.to_shift(torch.cat([s, t], 1)).view(len(s), -1, 3)
        moved, weight, _ = move_by_cage(cage, new_cage, source, verbose=True)
        return {"cage": cage, "new_cage": new_cage, "moved": moved, "weight": weight}


def main(mvc_weight=1.0, steps=50):
    torch.manual_seed(0)
    net = CageNet()
    criterion = AllLosses({"mvc_weight": mvc_weight})
    optimizer = torch.optim.Adam(net.parameters(), lr=2e-3)
    for step in range(steps):
        source = torch.randn(8, 24, 3)
        target = source * torch.tensor([1.5, 1.0, 0.5])
        outputs = net(source, target)
        losses = criterion({"source": source, "target": target}, outputs)
        optimizer.zero_grad()
        sum(losses.values()).backward()
        optimizer.step()
    print({k: round(v.item(), 4) for k, v in losses.items()})
    return net


if __name__ == "__main__":
    main()
