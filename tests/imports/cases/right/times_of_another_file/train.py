import torch
import torch.nn.functional as F
from repeating import repeat


def train(model, loader):
    optimizer = torch.optim.Adam(model.parameters())
    for x, y in loader:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        repeat(print, f"{loss.item()}", times=1)
