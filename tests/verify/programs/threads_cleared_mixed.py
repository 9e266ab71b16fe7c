"""Two threads train a model each; one of them clears its gradients too late."""
import threading

import torch
from torch import nn

torch.set_num_threads(1)


def loss_of(net, generator):
    x = torch.randn(16, 5, generator=generator)
    return nn.functional.huber_loss(net(x), x.sort(dim=1).values)


def tidy(net, optimizer, generator, steps=30):
    for _ in range(steps):
        optimizer.zero_grad()  # verify: cleared-before-step refuted
        loss_of(net, generator).backward()  # verify: missing-zero-grad refuted
        optimizer.step()


def late(net, optimizer, generator, steps=30):
    for _ in range(steps):
        loss = loss_of(net, generator)
        loss.backward()
        optimizer.zero_grad()  # verify: cleared-before-step confirmed
        optimizer.step()


threads = []
for seed, train in enumerate((tidy, late)):
    net = nn.Sequential(nn.Linear(5, 10), nn.Hardswish(), nn.Linear(10, 5))
    optimizer = torch.optim.Adamax(net.parameters(), lr=1e-3)
    generator = torch.Generator().manual_seed(seed)
    threads.append(threading.Thread(target=train, args=(net, optimizer, generator)))
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
