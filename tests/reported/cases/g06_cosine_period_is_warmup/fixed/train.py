import torch
from torch import nn

from trainer import CascadeTrainer


def stage(dim=8):
    return nn.Sequential(nn.Linear(dim, 32), nn.SiLU(), nn.Linear(32, dim))


def main(steps=200):
    torch.manual_seed(0)
    trainer = CascadeTrainer([stage(), stage()], lr=3e-3, warmup=20, decay_steps=steps)
    rates = []
    for step in range(steps):
        for number in (1, 2):
            image = torch.randn(16, 8).sign()
            noise = torch.randn_like(image)
            loss = trainer(0.7 * image + 0.7 * noise, noise, number=number)
            loss.backward()
            trainer.update(number=number)
        rates.append(trainer.rate_of(1))
        if step % 50 == 49:
            print(f"step {step} loss {loss.item():.4f} lr {rates[-1]:.2e}")
    return rates


if __name__ == "__main__":
    main()
