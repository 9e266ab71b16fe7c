import math

import torch
from rnn_vae import train_model

CONFIG = {
    "seed": 19,
    "time_window": 12,
    "zdims": 6,
    "hidden_size": 16,
    "batch_size": 32,
    "learning_rate": 5e-3,
    "scheduler": 0,
    "scheduler_step_size": 4,
    "scheduler_gamma": 0.2,
    "beta": 0.1,
    "kl_start": 2,
    "annealtime": 4,
    "max_epochs": 8,
}


def markers(length=400, features=6):
    torch.manual_seed(0)
    time = torch.arange(length)
    waves = [torch.sin(2 * math.pi * time / period + phase) for period, phase in [(20, 0.0), (20, 1.0), (33, 0.5), (33, 2.0), (50, 0.0), (50, 1.5)]]
    return torch.stack(waves[:features]) + 0.05 * torch.randn(features, length)


def main():
    return train_model(CONFIG, markers())


if __name__ == "__main__":
    main()
