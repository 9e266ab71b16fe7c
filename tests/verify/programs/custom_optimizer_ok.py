"""A sign descent optimizer that clears the gradients it has used."""
import torch
from torch import nn
from torch.optim import Optimizer


class SignDescent(Optimizer):
    def __init__(self, params, lr=1e-3, beta=0.9):
        super().__init__(params, {"lr": lr, "beta": beta})

    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if "momentum" not in state:
                    state["momentum"] = torch.zeros_like(p)
                m = state["momentum"]
                m.mul_(group["beta"]).add_(p.grad, alpha=1 - group["beta"])
                p.add_(m.sign(), alpha=-group["lr"])  # verify: inplace-on-leaf refuted
        self.zero_grad()
        return loss

    def zero_grad(self, set_to_none=True):
        for group in self.param_groups:
            for p in group["params"]:
                if set_to_none:
                    p.grad = None
                elif p.grad is not None:
                    p.grad.zero_()


def main(steps=36):
    torch.manual_seed(42)
    model = nn.Sequential(nn.Linear(5, 20), nn.Tanh(), nn.Linear(20, 1))
    optimizer = SignDescent(model.parameters(), lr=2e-3)
    for step in range(steps):
        x = torch.randn(48, 5)
        loss = (model(x) - x[:, :1] * x[:, 1:2]).pow(2).mean()
        loss.backward()  # verify: missing-zero-grad refuted
        optimizer.step()
        torch.cuda.empty_cache()  # verify: empty-cache-in-loop inconclusive
        if step % 12 == 0:
            print(step, f"{loss.item():.4f}")


if __name__ == "__main__":
    main()
