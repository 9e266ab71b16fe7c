import torch
import torch.nn.functional as F
from debug import rerun_with_anomaly
from models import Net
from loading import get_loader

net = Net()
opt = torch.optim.Adam(net.parameters())


def step(x, y):
    opt.zero_grad()
    loss = F.cross_entropy(net(x), y)
    loss.backward()
    return loss


for x, y in get_loader():
    loss = step(x, y)
    if not torch.isfinite(loss):
        rerun_with_anomaly(step, x, y)
        raise SystemExit(1)
    opt.step()
