"""A tour of backwards that PyTorch refuses, each tried and reported, beside the same statements where it does not."""
import torch
from torch import nn
from torch.nn import functional as F

torch.set_num_threads(1)
torch.manual_seed(4)

model = nn.Linear(4, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
scorer = nn.Linear(4, 1)
scorer_optimizer = torch.optim.SGD(scorer.parameters(), lr=0.05)


class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, factor):
        ctx.factor = factor
        return x * factor

    @staticmethod
    def backward(ctx, gradient):
        return gradient * ctx.factor  # verify: backward-arity confirmed


class Clipped(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.clamp(-1, 1)

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        inside = (x.abs() <= 1).float()
        return gradient * inside, None  # verify: backward-arity refuted


def losses(x, y, reduction):
    return F.mse_loss(model(x), y, reduction=reduction)


def try_out(name, attempt):
    try:
        attempt()
    except (RuntimeError, TypeError, AttributeError) as error:
        print(name, "failed:", str(error)[:60])


def nonscalar():
    loss = losses(torch.randn(8, 4), torch.randn(8, 3), "none")
    loss.backward()  # verify: nonscalar-backward confirmed, unseen by the linter


def twice():
    loss = losses(torch.randn(8, 4), torch.randn(8, 3), "mean")
    loss.backward()
    loss.backward()  # verify: second-backward confirmed


def arity():
    Scaled.apply(model(torch.randn(8, 4)), 2.0).sum().backward()


def context():
    with torch.no_grad:  # verify: uncalled-method confirmed
        print("never")


for step in range(10):
    # one sample at a time: its loss is a scalar, whatever the reduction
    scorer_optimizer.zero_grad()
    loss = F.mse_loss(scorer(torch.randn(1, 4)), torch.randn(1, 1), reduction="none")
    loss.backward()  # verify: nonscalar-backward refuted
    scorer_optimizer.step()

    # the graph of a sum saves nothing, so it may go backward again
    optimizer.zero_grad()
    total = model.weight.sum()
    total.backward()
    total.backward()  # verify: second-backward refuted
    Clipped.apply(model(torch.randn(8, 4))).sum().backward()
    optimizer.step()

for name, attempt in (("nonscalar", nonscalar), ("twice", twice), ("arity", arity), ("context", context)):
    optimizer.zero_grad()
    try_out(name, attempt)
