import losses
import torch
from registry import LOSSES
from torch import nn

print(losses.__name__)


def train(model, loader):
    criterion = LOSSES["nt_xent"]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(model(x), model(y))
        loss.backward()
        optimizer.step()
        print(loss.item())


if __name__ == "__main__":
    torch.manual_seed(0)
    train(nn.Linear(3, 3), [(torch.randn(8, 3), torch.randn(8, 3)) for _ in range(4)])
