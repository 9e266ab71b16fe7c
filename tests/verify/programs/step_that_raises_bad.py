"""A closure gives up on a bad batch in the middle of a step; training goes on with the next one."""
import torch
from torch import nn

torch.manual_seed(76)
torch.set_num_threads(1)


class BadBatch(ValueError):
    pass


def fit(net, optimizer, steps=12):
    skipped = 0
    for index in range(steps):
        x = torch.randn(16, 4)
        y = torch.full((16, 1), float("nan")) if index == 1 else x.prod(dim=1, keepdim=True)

        def closure():
            loss = nn.functional.mse_loss(net(x), y)
            if not loss.isfinite():
                raise BadBatch
            loss.backward()  # verify: missing-zero-grad confirmed
            return loss

        try:
            optimizer.step(closure)
        except BadBatch:
            skipped += 1
    return skipped


net = nn.Sequential(nn.Linear(4, 12), nn.Tanh(), nn.Linear(12, 1))
print(fit(net, torch.optim.SGD(net.parameters(), lr=1e-3)))
