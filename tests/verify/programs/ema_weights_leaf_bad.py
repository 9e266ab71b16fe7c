"""Training with an exponential moving average of the weights in a copy of the model."""
import copy

import torch
from torch import nn


class EMA:
    def __init__(self, model, decay=0.99):
        self.decay = decay
        self.shadow = copy.deepcopy(model)

    def update(self, model):
        for ema_p, p in zip(self.shadow.parameters(), model.parameters()):
            ema_p.mul_(self.decay).add_(p.detach(), alpha=1 - self.decay)  # verify: inplace-on-leaf confirmed


def main():
    torch.manual_seed(22)
    model = nn.Sequential(nn.Linear(7, 28), nn.SiLU(), nn.Linear(28, 1))
    ema = EMA(model)
    use_ema = True
    optimizer = torch.optim.NAdam(model.parameters(), lr=1e-3)
    for step in range(24):
        x = torch.rand(32, 7)
        loss = (model(x) - x.max(dim=1, keepdim=True).values).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if use_ema:
            try:
                ema.update(model)
            except RuntimeError as e:
                print("EMA switched off:", e)
                use_ema = False
        if step % 6 == 0:
            print(f"step {step} loss {loss.item():.5f}")


if __name__ == "__main__":
    main()
