"""Infinite masks, ratios that are replaced, roots that are kept from zero: nothing here becomes not a number."""

import torch
from torch import nn

torch.manual_seed(0)


def ratios_replaced():
    net = nn.Linear(4, 4)
    opt = torch.optim.SGD(net.parameters(), lr=0.01)
    for step in range(30):
        x = torch.randn(8, 4)
        mask = torch.zeros(8) if step == 12 else torch.ones(8)
        out = net(x).pow(2).mean(1)
        ratio = torch.zeros(1) / torch.zeros(1)
        loss = (out * mask).sum() / mask.sum().clamp(min=1) + torch.nan_to_num(ratio).sum()
        opt.zero_grad()
        loss.backward()
        opt.step()


def root_off_zero():
    net = nn.Linear(4, 4)
    opt = torch.optim.SGD(net.parameters(), lr=0.01)
    for step in range(80):
        x = torch.randn(8, 4)
        out = net(x)
        a = out[0]
        b = out[0] if step == 55 else out[1]
        dist = torch.sqrt(((a - b) ** 2).sum() + 1e-8)
        loss = dist + out.mean()
        opt.zero_grad()
        loss.backward()
        opt.step()


def infinite_masks():
    q = nn.Linear(8, 8)
    k = nn.Linear(8, 8)
    opt = torch.optim.SGD([*q.parameters(), *k.parameters()], lr=0.01)
    for step in range(120):
        x = torch.randn(4, 6, 8)
        pad = torch.zeros(4, 6, dtype=torch.bool)
        pad[:, 4:] = True
        scores = q(x) @ k(x).transpose(1, 2)
        scores = scores.masked_fill(pad[:, None, :], float("-inf"))
        att = torch.softmax(scores, dim=-1)
        loss = (att @ x).pow(2).mean()
        best = float("inf")
        opt.zero_grad()
        loss.backward()
        opt.step()


ratios_replaced()
root_off_zero()
infinite_masks()
