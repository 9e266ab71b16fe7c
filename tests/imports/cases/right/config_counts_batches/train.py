import torch
import torch.nn.functional as F
from schedules import make_schedule


def train(model, loader, config):
    config["steps"] = len(loader)
    optimizer = torch.optim.SGD(model.parameters(), lr=config["lr"])
    scheduler = make_schedule(config, optimizer)
    for epoch in range(config["epochs"]):
        for x, y in loader:
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()
            scheduler.step()
