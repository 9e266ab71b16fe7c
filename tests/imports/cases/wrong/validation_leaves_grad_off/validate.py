import torch

POINTS = torch.randn(100, 2, generator=torch.Generator().manual_seed(9))


def validate(net):
    net.eval()
    torch.set_grad_enabled(False)
    hits = (net(POINTS).argmax(1) == (POINTS[:, 0] > POINTS[:, 1]).long()).float()
    return hits.mean().item()
