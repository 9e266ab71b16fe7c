import torch
from history import History
from torch import nn


def train(model, loader, criterion, epochs):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    history = History()
    for _ in range(epochs):
        for x, y in loader:
            optimizer.zero_grad()
            loss = criterion(model(x), y)
            loss.backward()
            optimizer.step()
            history.log("loss", loss.item())
        history.log("loss", criterion(model(x), y))
        history.summary()
        history.reset()


train(nn.Linear(2, 1), [(torch.randn(4, 2), torch.randn(4, 1))] * 3, nn.MSELoss(), 2)
