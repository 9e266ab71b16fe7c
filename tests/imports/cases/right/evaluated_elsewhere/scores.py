import torch


@torch.no_grad()
def error(net, batches):
    total = 0.0
    for x, y in batches:
        total += (net(x) - y).abs().mean().item()
    return total / len(batches)
