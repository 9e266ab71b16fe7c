import torch
from features import collect
from torch import nn


@torch.no_grad()
def report(model, batches):
    return collect(model, batches).std().item()


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
batches = [torch.randn(16, 4) for _ in range(10)]
for epoch in range(3):
    model.train()
    for x in batches:
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), x.sum(1, keepdim=True)).backward()
        optimizer.step()
    print("spread %.4f" % report(model, batches))
