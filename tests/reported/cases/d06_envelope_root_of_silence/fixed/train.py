import torch
from torch import nn

from intelligibility import NegativeIntelligibility


class Denoiser(nn.Module):
    def __init__(self):
        super().__init__()
        self.filters = nn.Sequential(nn.Conv1d(1, 8, 9, padding=4, bias=False), nn.ReLU(),
                                     nn.Conv1d(8, 1, 9, padding=4, bias=False))

    def forward(self, wave):
        return self.filters(wave.unsqueeze(1)).squeeze(1)


def recordings(count, generator):
    time = torch.arange(1600) / 1600
    pitch = torch.randint(20, 200, (count, 1), generator=generator)
    clean = torch.sin(2 * torch.pi * pitch * time) * (1 + torch.sin(2 * torch.pi * 5 * time))
    noise = 0.3 * torch.randn(count, 1600, generator=generator)
    noisy = clean + noise
    ends = torch.randint(900, 1600, (count, 1), generator=generator)
    inside = torch.arange(1600)[None] < ends
    return clean * inside, noisy * inside


def main():
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(6)
    model, criterion = Denoiser(), NegativeIntelligibility()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for i in range(20):
        clean, noisy = recordings(8, generator)
        loss = criterion(model(noisy), clean).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if i % 10 == 0:
            print(f"step {i}: loss {loss.item():.4f}")
    broken = sum(not p.isfinite().all() for p in model.parameters())
    print(f"loss {loss.item():.4f}; parameters that are not finite: {broken} of {len(list(model.parameters()))}")


if __name__ == "__main__":
    main()
