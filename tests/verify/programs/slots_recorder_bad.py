"""Denoising MLP with a light-weight recorder; memory is freed after every update."""
import torch
from torch import nn


class Point:
    __slots__ = ("step", "payload")

    def __init__(self, step, payload):
        self.step, self.payload = step, payload


class Recorder:
    __slots__ = ("points",)

    def __init__(self):
        self.points = {}

    def log(self, step, **values):
        for k, v in values.items():
            self._store(k, Point(step, (v,)))

    def _store(self, key, point):
        self.points.setdefault(key, []).append(point)  # verify: undetached-accumulation confirmed, unseen by the linter


class Denoiser(nn.Module):
    def __init__(self, d=10):
        super().__init__()
        self.f = nn.Sequential(nn.Linear(d, 32), nn.GELU(), nn.Linear(32, d))

    def forward(self, x):
        return x - self.f(x)


def main(steps=28):
    torch.set_num_threads(1)
    torch.manual_seed(100)
    rec, model = Recorder(), Denoiser()
    opt = torch.optim.Adam(model.parameters(), 3e-3)
    for s in range(steps):
        clean = torch.randn(16, 1) * torch.ones(10)
        pred = model(clean + 0.3 * torch.randn(16, 10))
        mse = (pred - clean).pow(2).mean()
        opt.zero_grad()
        mse.backward()
        opt.step()
        rec.log(s, mse=mse, psnr=-10 * torch.log10(mse))  # verify: undetached-accumulation confirmed
        torch.cuda.empty_cache()  # verify: empty-cache-in-loop inconclusive
    last = rec.points["psnr"][-1]
    print(last.step, last.payload[0].item())


main()
