"""Matrix completion with L-BFGS, where the closure clears the gradients through a helper."""
import torch

torch.manual_seed(41)

ROWS, COLS, RANK = 20, 15, 3
truth = torch.randn(ROWS, RANK) @ torch.randn(RANK, COLS)
mask = torch.rand(ROWS, COLS) < 0.6

factors = {
    "rows": (0.1 * torch.randn(ROWS, RANK)).requires_grad_(),
    "cols": (0.1 * torch.randn(RANK, COLS)).requires_grad_(),
}


def wipe(tensors):
    for t in tensors:
        if t.grad is not None:
            t.grad.detach_()
            t.grad.zero_()


optimizer = torch.optim.LBFGS(factors.values(), lr=0.5, max_iter=5, line_search_fn="strong_wolfe")
tracked = []


def closure():
    wipe(factors.values())
    error = (factors["rows"] @ factors["cols"] - truth)[mask]
    loss = error.pow(2).mean() + 1e-4 * sum(f.pow(2).sum() for f in factors.values())
    loss.backward()  # verify: missing-zero-grad refuted
    return loss


for it in range(15):
    loss = optimizer.step(closure)  # verify: step-without-backward refuted
    tracked.append(float(loss))

print("first", round(tracked[0], 4), "last", round(tracked[-1], 6))
