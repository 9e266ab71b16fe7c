"""Two optimizers hold the same encoder, each with a decoder of its own."""
import torch
from torch import nn

torch.manual_seed(73)
torch.set_num_threads(1)


def half_cleared(encoder, first, second, one, other, batches):
    for x in batches:
        one.zero_grad()
        nn.functional.mse_loss(first(encoder(x)), x).backward()  # verify: missing-zero-grad refuted
        one.step()
        second.zero_grad()
        nn.functional.l1_loss(second(encoder(x)), x.abs()).backward()  # verify: missing-zero-grad confirmed
        other.step()


def both_cleared(encoder, first, second, one, other, batches):
    for x in batches:
        one.zero_grad()
        nn.functional.mse_loss(first(encoder(x)), x).backward()  # verify: missing-zero-grad refuted
        one.step()
        other.zero_grad()
        nn.functional.l1_loss(second(encoder(x)), x.abs()).backward()  # verify: missing-zero-grad refuted
        other.step()


def same_gradients(encoder, first, second, one, other, batches):
    for x in batches:
        h = encoder(x)
        (first(h) - second(h) - x).pow(2).mean().backward()  # verify: missing-zero-grad refuted
        one.step()
        other.step()
        one.zero_grad()
        other.zero_grad()


for train in (half_cleared, both_cleared, same_gradients):
    encoder, first, second = nn.Linear(7, 16), nn.Linear(16, 7), nn.Linear(16, 7)
    one = torch.optim.Adam([*encoder.parameters(), *first.parameters()], lr=1e-3)
    other = torch.optim.SGD([*encoder.parameters(), *second.parameters()], lr=1e-2)
    train(encoder, first, second, one, other, torch.randn(6, 18, 7))
    print(train.__name__, float(encoder.weight.norm()))
