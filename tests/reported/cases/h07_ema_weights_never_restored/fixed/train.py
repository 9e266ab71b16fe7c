import argparse

import torch
import torch.nn.functional as F
from ema import EMAModel
from torch import nn


class LatteT2V(nn.Module):
    def __init__(self, channels=4, dim=32):
        super().__init__()
        self.inner = nn.Linear(channels + 1, dim)
        self.spatial = nn.TransformerEncoderLayer(dim, 2, 64, dropout=0.0, batch_first=True)
        self.temporal = nn.TransformerEncoderLayer(dim, 2, 64, dropout=0.0, batch_first=True)
        self.out = nn.Linear(dim, channels)

    def forward(self, x, t):
        b, f, s, c = x.shape
        h = self.inner(torch.cat([x, t[:, None, None, None].expand(b, f, s, 1)], dim=-1))
        h = self.spatial(h.flatten(0, 1)).view(b, f, s, -1)
        h = self.temporal(h.transpose(1, 2).flatten(0, 1)).view(b, s, f, -1).transpose(1, 2)
        return self.out(h)


def video_latents(generator, size, frames=4, tokens=6, channels=4):
    start = torch.randn(size, 1, tokens, channels, generator=generator)
    return start * torch.linspace(1, 0, frames)[None, :, None, None]


def training_losses(model, x, generator=None):
    noise = torch.randn(x.shape, generator=generator)
    t = torch.rand(x.shape[0], generator=generator)
    x_t = (1 - t)[:, None, None, None] * x + t[:, None, None, None] * noise
    return F.mse_loss(model(x_t, t), noise - x)


@torch.no_grad()
def log_validation(model, global_step):
    model.eval()
    generator = torch.Generator().manual_seed(7)
    loss = training_losses(model, video_latents(generator, 16), generator)
    print(f"step {global_step} validation {loss.item():.4f}")
    model.train()
    return loss.item()


def main(args):
    torch.manual_seed(0)
    model = LatteT2V()
    ema_model = EMAModel(model.parameters(), decay=args.ema_decay) if args.use_ema else None
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.learning_rate)
    generator = torch.Generator().manual_seed(1)

    model.train()
    for global_step in range(1, args.max_train_steps + 1):
        loss = training_losses(model, video_latents(generator, args.batch_size), generator)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        if args.use_ema:
            ema_model.step(model.parameters())

        if global_step % args.checkpointing_steps == 0:
            if args.use_ema:
                # validate with the averaged weights
                ema_model.store(model.parameters())
                ema_model.copy_to(model.parameters())
            log_validation(model, global_step)
            if args.use_ema:
                ema_model.restore(model.parameters())
    return model, ema_model


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--use_ema", type=bool, default=True)
    parser.add_argument("--ema_decay", type=float, default=0.99)
    parser.add_argument("--learning_rate", type=float, default=2e-3)
    parser.add_argument("--batch_size", type=int, default=8)
    parser.add_argument("--max_train_steps", type=int, default=40)
    parser.add_argument("--checkpointing_steps", type=int, default=10)
    main(parser.parse_args())
