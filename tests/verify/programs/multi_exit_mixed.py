"""Multi-exit network: every exit has its own backward, followed by a separate penalty."""
import torch
from torch import nn
from torch.nn.utils.parametrizations import weight_norm

EXITS = {}


def register(name):
    def wrap(fn):
        EXITS[name] = fn
        return fn
    return wrap


@register("early")
def early(d, c):
    return nn.Linear(d, c)


@register("late")
def late(d, c):
    return nn.Sequential(weight_norm(nn.Linear(d, d)), nn.ReLU(), nn.Linear(d, c))


class MultiExit(nn.Module):
    def __init__(self, d=16, c=3):
        super().__init__()
        self.stem = nn.Sequential(nn.Linear(6, d), nn.Tanh())
        self.exits = nn.ModuleDict({k: f(d, c) for k, f in EXITS.items()})

    def forward(self, x):
        z = self.stem(x)
        return {k: e(z) for k, e in self.exits.items()}


def penalty(model):
    return 1e-3 * sum(p.pow(2).sum() for p in model.parameters())


def main():
    torch.set_num_threads(1)
    torch.manual_seed(55)
    model = MultiExit()
    opt = torch.optim.SGD(model.parameters(), lr=0.05, nesterov=True, momentum=0.9)
    for step in range(20):
        x = torch.randn(30, 6)
        y = (x[:, :3]).argmax(1)
        opt.zero_grad()
        losses = [nn.functional.cross_entropy(o, y) for o in model(x).values()]
        for k, loss in enumerate(losses):
            loss.backward(retain_graph=k + 1 < len(losses))  # verify: retain-graph-in-loop refuted
        penalty(model).backward(retain_graph=True)  # verify: retain-graph-in-loop confirmed, unseen by the linter
        opt.step()
    print([round(v.item(), 3) for v in losses])


if __name__ == "__main__":
    main()
