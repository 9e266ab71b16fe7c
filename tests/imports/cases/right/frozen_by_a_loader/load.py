import torch
from models import Net


def load_pretrained(path=None):
    net = Net()
    if path:
        net.load_state_dict(torch.load(path))
    for p in net.parameters():
        p.requires_grad_(False)
    return net.eval()
