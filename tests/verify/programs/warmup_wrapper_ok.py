"""Linear warm-up wrapper round an optimizer which also clears the gradients after the update."""
import torch
from torch import nn

torch.set_num_threads(1)
torch.manual_seed(21)


class Warmup:
    def __init__(self, inner, warm, peak):
        self.inner, self.warm, self.peak, self.t = inner, warm, peak, 0

    def step(self):
        self.t += 1
        for g in self.inner.param_groups:
            g["lr"] = self.peak * min(1.0, self.t / self.warm)
        self.inner.step()
        self._after()

    def _after(self):
        grads = [p.grad for g in self.inner.param_groups for p in g["params"] if p.grad is not None]
        torch._foreach_zero_(grads)


def build():
    enc = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
    return nn.ModuleDict({"enc": enc, "out": nn.Linear(16, 1)})


def run():
    torch.autograd.detect_anomaly()  # verify: anomaly-detection-left-on refuted
    model = build()
    sched = Warmup(torch.optim.Adam(model.parameters()), warm=6, peak=2e-3)
    x = torch.randn(64, 5, 16)
    y = x.mean((1, 2)).unsqueeze(1)
    for i in range(0, 20):
        idx = torch.randint(0, 64, (16,))
        pred = model["out"](model["enc"](x[idx])[:, 0])
        loss = ((pred - y[idx]) ** 2).mean()
        loss.backward()  # verify: missing-zero-grad refuted
        sched.step()
    print("final", round(loss.item(), 4))


run()
