"""A denoising autoencoder with a frozen first layer whose parameters are in the optimizer all the same."""
import torch
from torch import nn

DEBUG_RANGE = False


class AutoEncoder(nn.Module):
    def __init__(self, dim=16, code=5):
        super().__init__()
        self.project = nn.Linear(dim, 24)
        self.encode = nn.Linear(24, code)
        self.decode = nn.Sequential(nn.Linear(code, 24), nn.ReLU(), nn.Linear(24, dim))
        for p in self.project.parameters():
            p.requires_grad = False

    def forward(self, x):
        hidden = torch.tanh(self.encode(self.project(x)))
        if DEBUG_RANGE:
            hidden.clamp_(-0.9, 0.9).mul_(1.1)  # verify: inplace-on-saved-tensor not-reached
        return torch.sigmoid(self.decode(hidden))


def main():
    torch.manual_seed(62)
    net = AutoEncoder()
    optimizer = torch.optim.RMSprop(net.parameters(), lr=2e-3)
    patterns = torch.rand(6, 16)
    worst = torch.zeros(16)
    for step in range(32):
        clean = patterns[torch.randint(0, 6, (24,))]
        noisy = clean.clone()
        noisy[:, ::4] = 0
        output = net(noisy)
        loss = nn.functional.binary_cross_entropy(output, clean)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()  # verify: step-without-backward refuted
        with torch.no_grad():
            output.sub_(clean).abs_()  # verify: inplace-on-saved-tensor refuted
            worst = torch.maximum(worst, output.max(dim=0).values)
        if step % 8 == 0:
            print(f"step {step}: bce {loss.item():.4f}")
    print("worst pixel error", worst.max().item())


if __name__ == "__main__":
    main()
