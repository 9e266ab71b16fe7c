import torch
import torch.nn as nn
from loss import CorrectedLoss

class Net(nn.Module):
    def __init__(self, classes=10):
        super().__init__()
        self.body = nn.Sequential(nn.Flatten(), nn.Linear(784, 128), nn.ReLU())
        self.fc = nn.Linear(128, classes)
        self.shift = nn.Linear(classes, classes, bias=False)
        nn.init.zeros_(self.shift.weight)
    def forward(self, x):
        return self.fc(self.body(x)), self.shift.weight

def revise(loader, T):
    model = Net()
    loss_func = CorrectedLoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-7)
    for x, y in loader:
        out, change = model(x)
        loss = loss_func(out, T, change, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
