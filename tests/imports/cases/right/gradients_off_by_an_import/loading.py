import torch


def get_loader(n=3):
    return [(torch.randn(4, 8), torch.randint(0, 3, (4,))) for _ in range(n)]
