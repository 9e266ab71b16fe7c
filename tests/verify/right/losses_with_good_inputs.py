"""Losses that are given what they take, in forms that look like what they cannot take."""

import warnings

import torch
from torch import nn
from torch.nn import functional as F

warnings.simplefilter("ignore")
torch.manual_seed(0)


def classifier(outputs):
    return nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, outputs))


class Both(nn.Module):
    """Probabilities in evaluation only."""

    def __init__(self):
        super().__init__()
        self.body = classifier(3)

    def forward(self, x):
        out = self.body(x)
        return out if self.training else out.softmax(1)


def train(model, loss_of, steps=6):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for step in range(steps):
        x = torch.randn(12 if step < steps - 1 else 1, 6)
        optimizer.zero_grad()
        loss_of(model(x), x).backward()
        optimizer.step()
        model.eval()
        with torch.no_grad():
            model(x)
        model.train()


def label(x):
    return (x[:, 0] > 0).long() + (x[:, 1] > 0).long()


def contrast(out, x):
    """The last batch has one sample, and so one class."""
    both = F.normalize(out), F.normalize(out + 0.1 * torch.randn_like(out))
    return F.cross_entropy(both[0] @ both[1].t() / 0.2, torch.arange(len(x)))


def distill(out, x):
    """Soft targets, temperatures, and the divergence as documented."""
    teacher = (x @ torch.ones(6, 3)).softmax(1)
    soft = F.kl_div(F.log_softmax(out / 2, 1), teacher, reduction="batchmean")
    both = F.kl_div(F.log_softmax(out, 1), teacher.log(), reduction="batchmean", log_target=True)
    return soft + both + F.cross_entropy(out, teacher) + F.cross_entropy(out.softmax(1) / 0.1, teacher)


def measures(out, x):
    """Logarithms of measures that are not normalized."""
    return F.kl_div(out, x[:, :3].abs() * 3, reduction="batchmean") + out.exp().mean()


def relative(out, x):
    """The difference of two probabilities as a score, and one of two in [0, 1] by chance."""
    return F.binary_cross_entropy_with_logits(out[:, 0].sigmoid() - 0.5, x[:, 0].gt(0).float())


def attention_of_one(out, x):
    """A softmax over one key is one, and what it weighs has a gradient."""
    weights = out[:, :1].softmax(1)
    return F.mse_loss(weights * out, x[:, :3])


def scalar_target(out, x):
    return F.mse_loss(out, torch.zeros(1)) + F.l1_loss(out[:, :1], x[:, 0][:, None])


def quantiles(out, x):
    """All pairs of quantiles, which is meant."""
    return F.smooth_l1_loss(out.unsqueeze(1), x[:, :3].unsqueeze(2))


train(Both(), lambda out, x: F.cross_entropy(out, label(x)))
for loss_of in (contrast, distill, measures, relative, attention_of_one, scalar_target, quantiles):
    train(classifier(3), loss_of, steps=5)
