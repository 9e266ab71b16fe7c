"""Three ways to change what a backward needs so that autograd does not notice; and one that only reads."""
import numpy as np
import torch
from torch import nn

torch.manual_seed(3)


class Squash(torch.autograd.Function):
    """Keeps its result as an attribute of the context, where no version counter is looked at."""

    @staticmethod
    def forward(ctx, x):
        ctx.result = torch.sigmoid(x)
        return ctx.result

    @staticmethod
    def backward(ctx, gradient):
        return gradient * ctx.result * (1 - ctx.result)


class Towers(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second, self.third = (nn.Linear(6, 6) for _ in range(3))
        self.head = nn.Linear(18, 1)

    def forward(self, x):
        a = torch.tanh(self.first(x))
        a.data.mul_(0.5)  # verify: inplace-on-saved-tensor confirmed
        b = torch.exp(0.1 * self.second(x))
        array = b.detach().numpy()
        np.minimum(array, 0.9, out=array)  # verify: inplace-on-saved-tensor confirmed, unseen by the linter
        c = Squash.apply(self.third(x))
        c *= 2  # verify: inplace-on-saved-tensor confirmed, unseen by the linter
        out = self.head(torch.cat([a, b, c], dim=1))
        out += 1.0  # verify: inplace-on-saved-tensor refuted
        return out


towers = Towers()
opt = torch.optim.SGD(towers.parameters(), lr=0.01)
for _ in range(12):
    x = torch.randn(10, 6)
    opt.zero_grad()
    (towers(x) - x[:, :1]).pow(2).mean().backward()
    opt.step()
