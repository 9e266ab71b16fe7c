import math


def backprop(loss, module):
    """Backward, with a look at the gradients."""
    loss.backward(retain_graph=True)
    for name, p in module.named_parameters():
        if p.grad is not None and not math.isfinite(p.grad.sum().item()):
            raise FloatingPointError(name)
