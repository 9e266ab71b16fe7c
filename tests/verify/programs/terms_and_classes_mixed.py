"""Terms of a loss without a graph, and softmaxes over one value."""

import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)


def train(module, loss_of, steps=4):
    optimizer = torch.optim.SGD(module.parameters(), lr=0.01)
    for _ in range(steps):
        loss = loss_of(torch.randn(8, 4))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


net = nn.Linear(4, 4)


def number(x):
    out = net(x)
    rough = (out[1:] - out[:-1]).pow(2).mean()
    return F.mse_loss(out, x) + 0.1 * rough.item()  # verify: dead-loss-term confirmed


def without_gradients(x):
    out = net(x)
    loss = F.mse_loss(out, x)
    with torch.no_grad():
        extra = out.abs().mean()
    loss = loss + extra  # verify: dead-loss-term confirmed
    return loss


def new_tensor(x):
    out = net(x)
    spread = torch.tensor(out.detach().numpy().std())  # verify: dead-loss-term confirmed
    return sum([F.mse_loss(out, x), spread])


def alive(x):
    out = net(x)
    rough = (out[1:] - out[:-1]).pow(2).mean()
    return F.mse_loss(out, x) + 0.1 * rough  # verify: dead-loss-term refuted, unseen by the linter


def one_of_three(x):
    out = net(x)
    return F.mse_loss(out, x) + out.abs().mean() + out.std().item()  # verify: dead-loss-term confirmed


def constant(x):
    return F.mse_loss(net(x), x) + 0.5  # verify: dead-loss-term false, unseen by the linter, says inconclusive


for part in (number, without_gradients, new_tensor, alive, one_of_three, constant):
    train(net, part)


class Pool(nn.Module):
    def __init__(self, dimension):
        super().__init__()
        self.score, self.head, self.dimension = nn.Linear(4, 1), nn.Linear(4, 1), dimension


class Wrong(Pool):
    def forward(self, states):
        weights = F.softmax(self.score(states), dim=-1)  # verify: single-class confirmed
        return self.head((weights * states).sum(1))


class Right(Pool):
    def forward(self, states):
        weights = F.softmax(self.score(states), dim=1)  # verify: single-class refuted, unseen by the linter
        return self.head((weights * states).sum(1))


for pool in (Wrong(-1), Right(1)):
    train(pool, lambda x: F.mse_loss(pool(x[:, None].repeat(1, 3, 1)), x[:, :1]))

single, beside = nn.Linear(4, 1), nn.Linear(4, 1)


def beside_another(x):
    none = torch.zeros(8, dtype=torch.long)
    fit = F.mse_loss(beside(x), x[:, :1]) + F.cross_entropy(single(x), none)  # verify: single-class confirmed
    single(x).argmax(1)  # verify: single-class confirmed
    return fit


train(beside, beside_another)
