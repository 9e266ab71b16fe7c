import torch


def input_gradient(out, x):
    """How the output depends on each input; goes through the graph of `out`."""
    g, = torch.autograd.grad(out.sum(), x)
    return g
