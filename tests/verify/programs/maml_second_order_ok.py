"""Second-order meta-learning for linear tasks with a learned inner learning rate."""
import torch
from torch import nn
from torch.func import functional_call

torch.manual_seed(58)

model = nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 1))
inner_lr = nn.Parameter(torch.tensor(0.05))
meta_opt = torch.optim.Adam([*model.parameters(), inner_lr], lr=2e-3)


def task():
    weight = torch.randn(3, 1)
    x = torch.randn(24, 3)
    y = x @ weight
    return x[:12], y[:12], x[12:], y[12:]


def inner_loop(x, y, steps=2):
    fast = dict(model.named_parameters())
    for _ in range(steps):
        loss = (functional_call(model, fast, x) - y).pow(2).mean()
        grads = torch.autograd.grad(loss, list(fast.values()), create_graph=True)
        fast = {name: w - inner_lr * g for (name, w), g in zip(fast.items(), grads)}
    return fast


for meta_step in range(16):
    query_losses = []
    for _ in range(4):
        xs, ys, xq, yq = task()
        fast = inner_loop(xs, ys)
        query = (functional_call(model, fast, xq) - yq).pow(2).mean()
        query_losses.append(query)  # verify: undetached-accumulation refuted
    meta_loss = torch.stack(query_losses).mean()
    meta_loss.backward(retain_graph=True)  # verify: retain-graph-in-loop refuted
    rate_grad, = torch.autograd.grad(query_losses[0], inner_lr)
    # the clipped gradients are put back after the buffers were cleared
    clipped = [p.grad.clamp(-1, 1) for p in meta_opt.param_groups[0]["params"]]
    meta_opt.zero_grad()  # verify: cleared-before-step refuted
    for p, g in zip(meta_opt.param_groups[0]["params"], clipped):
        p.grad = g
    meta_opt.step()
    meta_opt.zero_grad()
    if meta_step % 4 == 0:
        print(f"{meta_step}: {meta_loss.item():.4f}, d loss / d rate {rate_grad.item():.4f}")
