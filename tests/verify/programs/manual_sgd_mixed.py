"""Logistic regression with a list of parameters and a hand-written momentum update."""
import torch

torch.set_num_threads(1)
torch.manual_seed(1)


def init_params(sizes):
    params = []
    for m, n in zip(sizes[:-1], sizes[1:]):
        params.append((torch.randn(m, n) / m ** 0.5).requires_grad_())
        params.append(torch.zeros(n, requires_grad=True))
    return params


def forward(params, x):
    h = x
    for k in range(0, len(params), 2):
        h = h @ params[k] + params[k + 1]
        if k + 2 < len(params):
            h = torch.tanh(h)
    return h


def make_updater(params, lr, mu):
    velocity = [torch.zeros_like(p) for p in params]

    def update():
        with torch.no_grad():
            for p, v in zip(params, velocity):
                v.mul_(mu).add_(p.grad)
                p -= lr * v  # verify: inplace-on-leaf refuted

    return update


params = init_params([5, 16, 1])
update = make_updater(params, lr=0.02, mu=0.5)
x = torch.randn(200, 5)
y = (x[:, 0] * x[:, 1] > 0).float().unsqueeze(1)

for step in range(30):
    idx = torch.randint(0, 200, (40,))
    loss = torch.nn.functional.binary_cross_entropy_with_logits(forward(params, x[idx]), y[idx])
    loss.backward()  # verify: missing-zero-grad confirmed
    update()
    if step % 10 == 0:
        print(step, loss.item())
