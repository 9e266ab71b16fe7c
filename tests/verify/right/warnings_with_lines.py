"""PyTorch's warnings name lines of the program, and its filters know its module."""

import warnings

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
net = nn.Linear(4, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)


def step():
    optimizer.zero_grad()
    loss = net(torch.randn(8, 4)).pow(2).mean()
    loss.backward()
    optimizer.step()
    return torch.ones(1, requires_grad=True) + loss.detach()


def spread(value):
    return value.std()


for action, often in (("always", 4), ("default", 2), ("once", 1)):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter(action)
        for _ in range(2):
            value = step()
            spread(value)
            F.softplus(value).std()
    assert [item.filename for item in seen] == [__file__] * often, (action, seen)
    assert len({item.lineno for item in seen}) == min(often, 2), (action, seen)

with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    warnings.filterwarnings("ignore", module=__name__)
    spread(step())
assert not seen

with warnings.catch_warnings():
    warnings.filterwarnings("error", module=__name__)
    try:
        spread(step())
        raise AssertionError("no warning")
    except UserWarning as warning:
        assert "degrees of freedom" in str(warning)
