"""A custom function whose backward is wrong; others that are right, or whose backward differs on purpose."""

import torch
from torch import nn

torch.manual_seed(0)


class Wrong(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.pow(3)

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return gradient * 3 * x  # seen: custom-function-gradient


class Right(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return x * weight.exp()

    @staticmethod
    def backward(ctx, gradient):
        x, weight = ctx.saved_tensors
        return gradient * weight.exp(), (gradient * x * weight.exp()).sum(0)


class Rounded(torch.autograd.Function):
    """Passes its gradient straight through."""

    @staticmethod
    def forward(ctx, x):
        return x.round()

    @staticmethod
    def backward(ctx, gradient):
        return gradient


class Reversed(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient):
        return -gradient


model, weight = nn.Linear(4, 4), nn.Parameter(torch.zeros(4))
optimizer = torch.optim.SGD([*model.parameters(), weight], lr=0.01)
for _ in range(5):
    optimizer.zero_grad()
    out = model(torch.randn(8, 4))
    parts = (Wrong.apply(out), Right.apply(out, weight), Rounded.apply(out), Reversed.apply(out))
    sum(part.pow(2).mean() for part in parts).backward()
    optimizer.step()
