import torch
from registry import LOSSES


@LOSSES.register
def nt_xent(z1, z2, temperature=0.5):
    similar = torch.exp(z1 @ z2.t() / temperature)
    positive = similar.diagonal().clone()
    similar.fill_diagonal_(0)
    return -torch.log(positive / similar.sum(1)).mean()
