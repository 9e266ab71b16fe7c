import argparse
import torch
import torch.nn as nn
from accelerate import Accelerator
from torch.utils.data import DataLoader

class Diffusion(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(4, 64, 3, padding=1), nn.SiLU(), nn.Conv2d(64, 1, 3, padding=1))
    def forward(self, mask, image):
        noise = torch.randn_like(mask)
        return nn.functional.mse_loss(self.net(torch.cat([mask + noise, image], 1)), noise)

def main(dataset):
    parser = argparse.ArgumentParser()
    parser.add_argument("--mixed_precision", default="fp16")
    parser.add_argument("--epochs", type=int, default=100)
    args = parser.parse_args()
    accelerator = Accelerator(mixed_precision=args.mixed_precision)
    model = Diffusion()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    loader = DataLoader(dataset, batch_size=8, shuffle=True)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    for epoch in range(args.epochs):
        for image, mask in loader:
            with accelerator.accumulate(model):
                loss = model(mask, image)
                accelerator.backward(loss)
                optimizer.step()
                optimizer.zero_grad()
