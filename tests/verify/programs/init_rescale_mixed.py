"""Comparing ways of rescaling an initialisation, including a complex-valued layer."""
import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(81)


class ComplexLinear(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.w = nn.Parameter(torch.randn(o, i, dtype=torch.cfloat))

    def forward(self, x):
        return (x.to(torch.cfloat) @ self.w.T).abs()


def via_method(m):
    m.w.mul_(0.3)  # verify: inplace-on-leaf confirmed


def via_operator(m):
    m.w /= m.w.shape[1] ** 0.5  # verify: inplace-on-leaf confirmed


def via_data(m):
    m.w.data.div_(m.w.shape[1] ** 0.5)  # verify: inplace-on-leaf refuted


def build(recipes):
    net = nn.Sequential(ComplexLinear(6, 10), nn.Linear(10, 1))
    for recipe in recipes:
        try:
            recipe(net[0])
        except RuntimeError as e:
            print(recipe.__name__, "->", e)
        else:
            print(recipe.__name__, "ok")
    return net


net = build([via_method, via_operator, via_data])
opt = torch.optim.Adam(net.parameters(), lr=1e-2)
for step in range(16):
    x = torch.randn(20, 6)
    loss = nn.functional.mse_loss(net(x), x.norm(dim=1, keepdim=True))
    opt.zero_grad()
    loss.backward()
    opt.step()
print("mse", loss.item())
