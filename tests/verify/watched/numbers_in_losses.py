"""Terms that lose their graph on the way to the loss, and inputs of the wrong kind."""

import torch
from torch import nn
from torch.nn import functional

torch.manual_seed(0)
net = nn.Sequential(nn.Linear(6, 12), nn.Tanh(), nn.Linear(12, 3))
optimizer = torch.optim.SGD(net.parameters(), lr=0.05)


@torch.no_grad()  # seen: dead-loss-term (no_grad)
def spread(values):
    return (values - values.mean(0)).pow(2).mean()


def roughness(values):
    return float(values.detach().numpy().std())  # seen: dead-loss-term (detach)


def scores(values, labels):
    found = {"main": functional.cross_entropy(values, labels)}
    found["size"] = values.abs().mean().item()  # seen: dead-loss-term (item)
    return sum(0.5 * item for item in found.values())


for step in range(12):
    values, labels = net(torch.randn(16, 6)), torch.randint(3, (16,))
    if step % 4 == 0:
        loss = functional.cross_entropy(values, labels) + 0.1 * spread(values)
    elif step % 4 == 1:
        loss = functional.cross_entropy(values, labels) + 0.1 * roughness(values)
    elif step % 4 == 2:
        loss = scores(values, labels)
    else:
        loss = functional.nll_loss(values.softmax(1), labels)  # seen: softmax-before-cross-entropy (nll_loss)
        teacher = torch.randn(16, 3).log_softmax(1)
        loss = loss + functional.kl_div(values.log_softmax(1), teacher)  # seen: kl-div-input (other kind)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
