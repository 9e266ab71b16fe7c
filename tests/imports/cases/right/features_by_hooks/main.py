import torch
import torch.nn.functional as F
from features import Features
from torch import nn


def main():
    torch.manual_seed(0)
    teacher = Features(nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2)), ["0"])
    net = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
    student = Features(net, ["0"])
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for x in torch.randn(20, 8, 4):
        with torch.no_grad():
            _, wanted = teacher(x)
        optimizer.zero_grad()
        _, found = student(x)
        loss = torch.tensor(0.0)
        for name in wanted:
            loss = loss + F.mse_loss(found[name], wanted[name])
        loss.backward()
        optimizer.step()
    print(loss.item())


if __name__ == "__main__":
    main()
