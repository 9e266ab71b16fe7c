"""Steps in hooks that the engine calls in a thread of its own, as it does on a GPU.

On a CPU it has one for backwards that lie sixty deep in others.
"""
import threading

import torch
from torch import nn

DEPTH = 60
torch.set_num_threads(1)
torch.manual_seed(60)
net = nn.Linear(3, 1)
optimizers = {p: torch.optim.SGD([p], lr=0.01) for p in net.parameters()}
threads = set()


class Deeper(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, depth):
        ctx.depth = depth
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        with torch.enable_grad():
            if ctx.depth:
                Deeper.apply(torch.ones((), requires_grad=True), ctx.depth - 1).backward()
            else:
                fit()
        return None, None


def fit():
    loss = net(torch.randn(4, 3)).pow(2).mean()
    loss.backward()


def on_grad(param):
    threads.add(threading.get_ident())
    optimizers[param].step()  # verify: step-without-backward refuted
    optimizers[param].zero_grad()


def main():
    for p in net.parameters():
        p.register_post_accumulate_grad_hook(on_grad)
    for step in range(8):
        Deeper.apply(torch.ones((), requires_grad=True), DEPTH).backward()  # verify: missing-zero-grad refuted
    print("threads of hooks:", len(threads), "the main one among them:", threading.get_ident() in threads)


if __name__ == "__main__":
    main()
