"""Losses that are given what they cannot take: probabilities, scores, one class; and what only looks like it."""

import warnings

import torch
from torch import nn
from torch.nn import functional as F

warnings.simplefilter("ignore")
torch.manual_seed(0)


class Net(nn.Module):
    def __init__(self, outputs, last=None):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, outputs))
        self.last = last or nn.Identity()

    def forward(self, x):
        return self.last(self.body(x))


class Criterion(nn.Module):
    def forward(self, out, y):
        return F.cross_entropy(out, y)  # seen: softmax-before-cross-entropy (each row)


def train(model, loss_of, steps=6):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(steps):
        x = torch.randn(12, 6)
        optimizer.zero_grad()
        loss_of(model(x), x).backward()
        optimizer.step()


def label(x):
    return (x[:, 0] > 0).long() + (x[:, 1] > 0).long()


def by_hand(out):
    scores = (out - out.max(1, keepdim=True).values).exp()
    return scores / scores.sum(1, keepdim=True)


def probabilities():
    criterion = Criterion()
    train(Net(3, nn.Softmax(dim=1)), lambda out, x: criterion(out, label(x)))
    entropy = nn.CrossEntropyLoss(label_smoothing=0.1)
    train(Net(3), lambda out, x: entropy(by_hand(out), label(x)))  # seen: softmax-before-cross-entropy


def one_sigmoid_too_many():
    positive = nn.BCEWithLogitsLoss(pos_weight=torch.tensor(2.0))
    train(Net(1), lambda out, x: positive(torch.sigmoid(out)[:, 0], x[:, 0].gt(0).float()))  # seen: sigmoid-before-bce-with-logits (`sigmoid`)
    clamped = Net(1, nn.Sequential(nn.Sigmoid(), nn.Flatten()))
    train(clamped, lambda out, x: F.binary_cross_entropy_with_logits(out.clamp(1e-6, 1), x[:, :1].gt(0).float()))  # seen: sigmoid-before-bce-with-logits


def divergences():
    goal = torch.randn(12, 3).softmax(1)
    train(Net(3), lambda out, x: F.kl_div(out.softmax(1), goal, reduction="batchmean"))  # seen: kl-div-input (above zero)
    divergence = nn.KLDivLoss(reduction="batchmean", log_target=True)
    train(Net(3), lambda out, x: divergence(out * 4, goal.log()))  # seen: kl-div-input


def one_class():
    entropy = nn.CrossEntropyLoss()
    train(Net(1), lambda out, x: 0.1 * out.pow(2).mean() + entropy(out, torch.zeros(12, dtype=torch.long)))  # seen: loss-over-one-class
    train(Net(1, nn.Softmax(dim=-1)), lambda out, x: 0.1 * x.mean() + F.binary_cross_entropy(out, x[:, :1].gt(0).float()))  # seen: loss-over-one-class


def images():
    convolution = nn.Conv2d(1, 1, 3, padding=1)
    optimizer = torch.optim.SGD(convolution.parameters(), lr=0.1)
    for _ in range(4):
        x = torch.randn(4, 1, 5, 5)
        optimizer.zero_grad()
        F.l1_loss(convolution(x), x[:, 0]).backward()  # seen: broadcast-loss
        optimizer.step()


for part in (probabilities, one_sigmoid_too_many, divergences, one_class, images):
    part()
