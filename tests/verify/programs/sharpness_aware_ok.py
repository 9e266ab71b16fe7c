"""Sharpness-aware minimisation with a perturbation step before the real one."""
import torch
from torch import nn


class SAM:
    def __init__(self, model, base, rho=0.05):
        self.model = model
        self.base = base
        self.rho = rho
        self.shift = {}

    @torch.no_grad()  # verify: training-under-no-grad refuted
    def perturb(self):
        norm = torch.stack([p.grad.norm() for p in self.model.parameters()]).norm()
        for p in self.model.parameters():
            self.shift[p] = p.grad * (self.rho / (norm + 1e-12))
            p.add_(self.shift[p])

    @torch.no_grad()
    def restore(self):
        for p in self.model.parameters():
            p.sub_(self.shift.pop(p))

    def step(self, loss_fn):
        loss = loss_fn()
        loss.backward()
        self.perturb()
        self.base.zero_grad()  # verify: cleared-before-step refuted
        loss_fn().backward()
        self.restore()
        self.base.step()
        self.base.zero_grad()
        return loss.item()


def main():
    torch.manual_seed(43)
    model = nn.Sequential(nn.Linear(4, 24), nn.ReLU(), nn.Linear(24, 3))
    sam = SAM(model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9))
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(sam.base, T_max=24)
    for step in range(24):
        x = torch.randn(40, 4)
        y = x[:, :3].argmin(dim=1)
        loss = sam.step(lambda: nn.functional.cross_entropy(model(x), y))
        scheduler.step()
        if step % 6 == 0:
            print(f"{step:2d} {loss:.4f}")


if __name__ == "__main__":
    main()
