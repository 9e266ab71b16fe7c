import torch
import torch.nn.functional as F


def fit(net, loader):
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(2):
        for x, y in loader:
            optimizer.zero_grad()
            F.cross_entropy(net(x), y).backward()
            optimizer.step()
        net.eval()
        with torch.no_grad():
            print(sum((net(x).argmax(1) == y).sum().item() for x, y in loader))
