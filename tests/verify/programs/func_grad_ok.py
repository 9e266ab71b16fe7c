"""Per-batch gradients with torch.func.grad and functional_call, then an ordinary Adam step."""
import torch
from torch import nn
from torch.func import functional_call, grad_and_value

torch.set_num_threads(1)
torch.manual_seed(50)
model = nn.Sequential(nn.Linear(4, 16), nn.Softplus(), nn.Linear(16, 1))
names = [n for n, _ in model.named_parameters()]
opt = torch.optim.Adam(model.parameters(), lr=1e-2)


def objective(params, x, y):
    pred = functional_call(model, params, (x,))
    return nn.functional.huber_loss(pred, y)


value_fn = grad_and_value(objective)


def step(x, y):
    with torch.no_grad():  # verify: training-under-no-grad refuted
        params = {n: p.detach() for n, p in model.named_parameters()}
        grads, value = value_fn(params, x, y)
        for n, p in model.named_parameters():
            p.grad = grads[n]
    opt.step()
    return value


curve = []
for _ in range(28):
    x = torch.rand(32, 4)
    curve.append(step(x, x.pow(2).sum(1, keepdim=True)))
print(len(names), "tensors;", "loss", curve[0].item(), "->", curve[-1].item())
