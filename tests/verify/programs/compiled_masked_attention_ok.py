"""Causal attention that is masked before the softmax, compiled with the aot_eager backend."""
import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(dim, dim) for _ in range(3))
        self.scale = dim ** -0.5

    def forward(self, x):
        scores = self.query(x) @ self.key(x).transpose(1, 2) * self.scale
        future = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        scores.masked_fill_(future, float("-inf"))  # verify: inplace-on-saved-tensor refuted, says inconclusive
        return scores.softmax(dim=-1) @ self.value(x)


def running_mean_batches(count, batch=12, length=8, dim=6):
    for _ in range(count):
        x = torch.randn(batch, length, dim)
        yield x, x.cumsum(dim=1) / torch.arange(1, length + 1).view(1, -1, 1)


if __name__ == "__main__":
    torch.manual_seed(61)
    model = Attention(6)
    forward = torch.compile(model, backend="aot_eager")
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.97)
    for step, (x, target) in enumerate(running_mean_batches(20)):
        loss = nn.functional.mse_loss(forward(x), target)
        loss.backward()  # verify: missing-zero-grad refuted
        optimizer.step()
        model.zero_grad(set_to_none=True)
        scheduler.step()
        if step % 5 == 0:
            print(f"step {step}: {loss.item():.4f}")
