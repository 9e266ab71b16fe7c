"""The optimizer steps are fused into the backward pass: one optimizer for each parameter."""
import torch
from torch import nn


class FusedBackward:
    """Steps a parameter as soon as its gradient is there, and frees the gradient."""

    def __init__(self, model, factory):
        self.optimizers = {p: factory([p]) for p in model.parameters()}
        for p in model.parameters():
            p.register_post_accumulate_grad_hook(self.on_grad)

    def on_grad(self, param):
        self.optimizers[param].step()  # verify: step-without-backward refuted
        self.optimizers[param].zero_grad()


class Net(nn.Module):
    def __init__(self, vocab=30, dim=16):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 32), nn.GELU(), nn.Linear(32, vocab))

    def forward(self, tokens):
        return self.mlp(self.embed(tokens))


def main():
    torch.manual_seed(50)
    net = Net()
    FusedBackward(net, lambda ps: torch.optim.AdamW(ps, lr=3e-3))
    for step in range(25):
        tokens = torch.randint(0, 30, (64,))
        loss = nn.functional.cross_entropy(net(tokens), (tokens + 1) % 30)
        torch.autograd.backward([loss])  # verify: missing-zero-grad refuted
        if step % 8 == 0:
            print(f"step {step}: {loss.item():.4f}")


if __name__ == "__main__":
    main()
