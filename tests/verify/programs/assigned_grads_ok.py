"""Training with gradients from torch.autograd.grad that are assigned by hand; the old loop is kept for reference."""
import torch
from torch import nn


def legacy_train(model, optimizer, batches):
    """The loop of the first version, no longer used."""
    history = []
    for x, y in batches:
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()  # verify: missing-zero-grad not-reached
        optimizer.step()
        history.append(loss)  # verify: undetached-accumulation not-reached
    return history


def train(model, optimizer, batches, clip=2.0):
    params = [p for p in model.parameters() if p.requires_grad]
    history = []
    for x, y in batches:
        loss = nn.functional.mse_loss(model(x), y)
        grads = torch.autograd.grad(loss, params)
        norm = torch.sqrt(sum(g.pow(2).sum() for g in grads))
        factor = min(1.0, clip / (norm.item() + 1e-6))
        for p, g in zip(params, grads):
            p.grad = g * factor
        optimizer.step()  # verify: step-without-backward refuted
        history.append((loss.item(), norm.item()))
    return history


def make_batches(n):
    for _ in range(n):
        x = torch.randn(32, 6)
        yield x, (x[:, :2] * x[:, 2:4]).sum(dim=1, keepdim=True)


def main():
    torch.manual_seed(48)
    model = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    history = train(model, optimizer, make_batches(30))
    for i in range(0, 30, 10):
        print(i, "loss %.4f norm %.4f" % history[i])


if __name__ == "__main__":
    main()
