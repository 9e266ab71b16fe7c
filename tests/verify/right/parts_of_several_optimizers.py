"""A critic with two heads, which two optimizers train: each gets the gradients of another head."""

import itertools

import torch
from torch import nn
from torch.nn import functional as F


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(0.2))
        self.real, self.code = nn.Linear(16, 1), nn.Linear(16, 3)

    def forward(self, x):
        hidden = self.body(x)
        return self.real(hidden), self.code(hidden)


torch.manual_seed(0)
maker, critic = nn.Sequential(nn.Linear(5, 16), nn.Tanh(), nn.Linear(16, 2)), Critic()
for_real = torch.optim.Adam(critic.parameters(), lr=1e-3)
for_maker = torch.optim.Adam(maker.parameters(), lr=1e-3)
for_code = torch.optim.Adam(itertools.chain(maker.parameters(), critic.parameters()), lr=1e-3)
for _ in range(15):
    codes = torch.randint(3, (8,))
    given = torch.cat([torch.randn(8, 2), F.one_hot(codes, 3).float()], dim=1)
    for_maker.zero_grad()
    F.softplus(-critic(maker(given))[0]).mean().backward()
    for_maker.step()
    for_real.zero_grad()
    (F.softplus(-critic(torch.randn(8, 2))[0]) + F.softplus(critic(maker(given).detach())[0])).mean().backward()
    for_real.step()
    for_code.zero_grad()
    F.cross_entropy(critic(maker(given))[1], codes).backward()
    for_code.step()
