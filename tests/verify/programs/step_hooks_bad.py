"""Hooks of the optimizer's own step: one clears what the step is about to use, one only what it has used."""
import torch
from torch import nn

torch.manual_seed(72)
torch.set_num_threads(1)


def before(optimizer, args, kwargs):
    optimizer.zero_grad()  # verify: cleared-before-step confirmed


def after(optimizer, args, kwargs):
    optimizer.zero_grad()  # verify: cleared-before-step refuted


class Forgetful(torch.optim.SGD):
    def step(self, closure=None):
        self.zero_grad()  # verify: cleared-before-step confirmed, says inconclusive
        return super().step(closure)


def fit(net, optimizer, steps):
    for _ in range(steps):
        x = torch.randn(24, 6)
        loss = nn.functional.smooth_l1_loss(net(x), x.cumsum(dim=1))
        loss.backward()
        optimizer.step()
    return loss.item()


def network():
    return nn.Sequential(nn.Linear(6, 20), nn.SiLU(), nn.Linear(20, 6))


nets = [network() for _ in range(3)]
emptied = torch.optim.RMSprop(nets[0].parameters(), lr=1e-3)
emptied.register_step_pre_hook(before)
tidy = torch.optim.RMSprop(nets[1].parameters(), lr=1e-3)
tidy.register_step_post_hook(after)
forgetful = Forgetful(nets[2].parameters(), lr=1e-2)
print([fit(net, optimizer, 10) for net, optimizer in zip(nets, (emptied, tidy, forgetful))])
