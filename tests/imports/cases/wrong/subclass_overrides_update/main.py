import torch
from torch import nn
from fitter import Fitter


class SlowFitter(Fitter):
    """Decays its rate on the way."""

    def update(self):
        self.opt.step()
        for g in self.opt.param_groups:
            g["lr"] *= 0.99


if __name__ == "__main__":
    torch.manual_seed(0)
    f = SlowFitter(nn.Linear(4, 2), lr=0.02)
    print("last loss %.4f" % f.fit(n=50))
