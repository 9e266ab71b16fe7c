import torch
from grads import spsa_into_grad

torch.manual_seed(0)
theta = torch.nn.Parameter(torch.randn(6))
goal = torch.arange(6.0)
opt = torch.optim.SGD([theta], lr=0.05, momentum=0.5)


def cost(v):
    return (v - goal).pow(2).sum()


print("start %.3f" % cost(theta.detach()))
for k in range(120):
    spsa_into_grad(cost, theta, eps=1e-2)
    opt.step()
print("end %.5f" % cost(theta.detach()))
