"""A Signum optimizer written as a subclass of torch.optim.Optimizer; it wipes gradients itself."""
import torch
from torch import nn


class Signum(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-3, beta=0.9):
        super().__init__(params, dict(lr=lr, beta=beta))

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                st = self.state[p]
                m = st.setdefault("m", torch.zeros_like(p))
                m.mul_(group["beta"]).add_(p.grad, alpha=1 - group["beta"])
                p.sub_(group["lr"] * m.sign())
                p.grad *= 0


def main():
    torch.set_num_threads(1)
    torch.manual_seed(6)
    model = nn.GRU(4, 12, batch_first=True)
    out = nn.Linear(12, 1)
    opt = Signum([*model.parameters(), *out.parameters()], lr=2e-3)
    for i in range(25):
        seq = torch.randn(10, 6, 4)
        target = seq.cumsum(1)[..., :1]
        hs, _ = model(seq)
        loss = (out(hs) - target).abs().mean()
        loss.backward()  # verify: missing-zero-grad refuted
        opt.step()
    print("L1", loss.item())


if __name__ == "__main__":
    main()
