def grad_norm(optimizer):
    """Norm of all gradients of the optimizer's parameters."""
    square = 0.0
    for group in optimizer.param_groups:
        for p in group["params"]:
            if p.grad is not None:
                square += p.grad.pow(2).sum().item()
    optimizer.zero_grad()
    return square ** 0.5
