"""Silent errors that TrainCheck (OSDI 2025) names, re-created from their public descriptions: those of one process.

Each function is one of them, by the name it has there. `missed` says why a run does not show it.
"""

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)


def train(net, optimizer, steps=12, clears=True):
    for _ in range(steps):
        if clears:
            optimizer.zero_grad()
        x = torch.randn(16, 8)
        F.mse_loss(net(x), x.sum(1, keepdim=True)).backward()  # seen: missing-zero-grad
        optimizer.step()  # seen: step-without-backward


def body():
    return nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))


def stackoverflow_60335387():
    """`zero_grad` is missing."""
    net = body()
    train(net, torch.optim.SGD(net.parameters(), lr=1e-3), clears=False)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.inputs, self.outputs = nn.Linear(8, 24), nn.Linear(8, 1)

    def forward(self, x):
        query, key, value = self.inputs(x)[:, None].chunk(3, -1)
        out = F.scaled_dot_product_attention(query, key, value, dropout_p=0.1)  # seen: dropout-ignores-mode
        return self.outputs(out[:, 0])


def transformers_33844():
    """Attention drops in eval mode as well."""
    net = Attention()
    train(net, torch.optim.SGD(net.parameters(), lr=1e-3))
    net.eval()
    with torch.no_grad():
        for _ in range(4):
            net(torch.randn(4, 8))


def accelerate_2665():
    """The optimizer holds parameters that wrapping has replaced: no step changes the model."""
    net = body()
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-3)
    for part in (net[0], net[2]):
        part.weight, part.bias = (nn.Parameter(leaf.detach().clone()) for leaf in (part.weight, part.bias))
    train(net, optimizer)


class Strided(torch.optim.SGD):
    """Updates a contiguous copy of each weight."""

    def step(self):
        for group in self.param_groups:
            for leaf in group["params"]:
                leaf.data.t().contiguous().add_(leaf.grad.t(), alpha=-group["lr"])


def update_of_a_copy():
    """Gradients are there, and updates go to copies (of the "success stories")."""
    net = body()
    optimizer = Strided(net.parameters(), lr=1e-2)  # seen: parameter-never-moves (`0.weight`)
    train(net, optimizer)


def pytorch_forum_84911():
    """Missed: all layers but the normalization are frozen, and so is a model that is meant to be."""
    net = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.Linear(16, 1))
    for part in (net[0], net[2]):
        part.requires_grad_(False)
    train(net, torch.optim.SGD(net[1].parameters(), lr=1e-2))


class Staged(nn.Module):
    """Freezes its first stage when it is put into training mode."""

    def __init__(self):
        super().__init__()
        self.stage, self.head = nn.Linear(8, 16), nn.Linear(16, 1)

    def train(self, mode=True):
        super().train(mode)
        self.stage.requires_grad_(not mode)
        return self

    def forward(self, x):
        return self.head(torch.tanh(self.stage(x)))


def mmpretrain_702():
    """Missed: nobody calls `train()`, and a stage is trained that should be frozen; nothing says that it should."""
    net = Staged()
    train(net, torch.optim.SGD(net.parameters(), lr=1e-3))


def transformers_17877():
    """Missed: weights are drawn three times, before anything is trained."""
    net = body()
    for _ in range(3):
        for leaf in net.parameters():
            nn.init.normal_(leaf, std=0.02)
    train(net, torch.optim.SGD(net.parameters(), lr=1e-3))


def pytorch_51800():
    """Missed: an evaluation before the first training step has weights that are not normalized yet."""
    net = nn.Sequential(nn.utils.spectral_norm(nn.Linear(8, 16)), nn.Linear(16, 1))
    net.eval()
    with torch.no_grad():
        net(torch.randn(4, 8))
    net.train()
    train(net, torch.optim.SGD(net.parameters(), lr=1e-3))


class Stuck(torch.optim.SGD):
    """Goes on with what was compiled for a step without gradients."""

    is_stuck = False

    def step(self):
        if not self.is_stuck:
            super().step()


def pytorch_115607():
    """Missed: weights moved at the first steps, and stand still later on."""
    net = body()
    optimizer = Stuck(net.parameters(), lr=1e-3)
    train(net, optimizer, steps=3)
    optimizer.is_stuck = True
    train(net, optimizer)


def lightning_thunder_725():
    """Missed: autocast is not applied to one layer, which computes in 32 bits."""
    net = body()
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-3)
    for _ in range(12):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            hidden = net[1](net[0](torch.randn(16, 8)))
            with torch.autocast("cpu", enabled=False):
                out = net[2](hidden.float())
        out.pow(2).mean().backward()
        optimizer.step()


def transformers_23723():
    """Missed: more tokens are generated than were asked for; nothing is trained."""
    net = nn.Linear(8, 8)
    with torch.no_grad():
        x = torch.randn(1, 8)
        for _ in range(25):
            x = net(x)


for failure in (
    stackoverflow_60335387,
    transformers_33844,
    accelerate_2665,
    update_of_a_copy,
    pytorch_forum_84911,
    mmpretrain_702,
    transformers_17877,
    pytorch_51800,
    pytorch_115607,
    lightning_thunder_725,
    transformers_23723,
):
    failure()
