"""Compiled code stays whole: one graph, with a custom function in it; what runs around it is seen."""

import torch
from torch import nn


class Squared(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return gradient * 2 * x


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        return Squared.apply(torch.relu(self.layer(x)))


torch.manual_seed(0)
model = Net()
compiled = torch.compile(model, backend="eager", fullgraph=True)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(6):
    loss = compiled(torch.randn(8, 4)).mean()
    loss.backward()  # seen: missing-zero-grad
    optimizer.step()
assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 1
