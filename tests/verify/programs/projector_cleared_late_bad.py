"""Contrastive pre-training: the projector's gradients are thrown away between the backward and the step."""
import torch
from torch import nn


class Siamese(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.backbone = nn.Sequential(nn.Linear(10, width), nn.GELU(), nn.Linear(width, width))
        self.projector = nn.Sequential(nn.Linear(width, 12), nn.ReLU(), nn.Linear(12, 6))

    def forward(self, x):
        return nn.functional.normalize(self.projector(self.backbone(x)), dim=1)


def update(net, optimizer, left, right):
    optimizer.zero_grad()
    loss = (net(left) - net(right)).pow(2).sum(dim=1).mean()
    loss.backward()
    nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    net.projector.zero_grad()  # verify: cleared-before-step confirmed
    optimizer.step()
    return loss.item()


def update_in_place(net, optimizer, left, right):
    optimizer.zero_grad(set_to_none=False)
    loss = (net(left) * net(right)).sum(dim=1).mean()
    loss.backward()
    net.projector.zero_grad(set_to_none=False)  # verify: cleared-before-step confirmed
    optimizer.step()
    return loss.item()


if __name__ == "__main__":
    torch.manual_seed(71)
    net = Siamese()
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
    for _ in range(14):
        x = torch.randn(20, 10)
        pulled = update(net, optimizer, x + 0.1 * torch.randn_like(x), x)
        pushed = update_in_place(net, optimizer, x, x.flip(0))
    print(f"{pulled:.4f} {pushed:.4f}")
