"""Homework: save memory by running in-place operations on activations, and see what autograd says."""
import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(70)


def gate_inplace(h):
    g = torch.sigmoid(h)
    g.mul_(2.0)  # verify: inplace-on-saved-tensor confirmed
    return g


def exp_clip(h):
    e = torch.exp(h)
    e[:, 0] = 0.0  # verify: inplace-on-saved-tensor confirmed
    return e


def shift_then_relu(h):
    h.add_(0.1).relu_()  # verify: inplace-on-saved-tensor refuted
    return h


def train(act, steps=12):
    net_in, net_out = nn.Linear(5, 8), nn.Linear(8, 1)
    opt = torch.optim.SGD([*net_in.parameters(), *net_out.parameters()], lr=0.02)
    for _ in range(steps):
        x = torch.randn(16, 5)
        loss = (net_out(act(net_in(x))) - x[:, :1]).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
    return loss.item()


for act in (gate_inplace, exp_clip, shift_then_relu):
    try:
        print(f"{act.__name__:16s} loss {train(act):.4f}")
    except RuntimeError as err:
        print(f"{act.__name__:16s} failed: {str(err).splitlines()[0][:70]}")
