import math
from types import SimpleNamespace

import torch
import torch.nn.functional as F
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, Dataset

CONFIG = dict(
    train_batch_size=4,
    gradient_accumulation_steps=4,
    learning_rate=1e-3,
    adam_weight_decay=0.01,
    max_grad_norm=1.0,
    lr_warmup_steps=2,
    max_train_steps=8,
    num_train_epochs=2,
    seed=43,
)


class LatentDataset(Dataset):
    """Latents and text embeddings that were written to disk before the training."""

    def __init__(self, size=64, channels=4, res=8, text=16):
        g = torch.Generator().manual_seed(0)
        self.text = torch.randn(size, text, generator=g)
        base = self.text[:, :channels, None, None].expand(-1, -1, res, res)
        self.latents = base + 0.1 * torch.randn(size, channels, res, res, generator=g)

    def __len__(self):
        return len(self.latents)

    def __getitem__(self, i):
        return {"latents": self.latents[i], "prompt_embed": self.text[i]}


class Transformer2D(nn.Module):
    def __init__(self, channels=4, width=32, text=16):
        super().__init__()
        self.proj_in = nn.Linear(channels, width)
        self.text_in = nn.Linear(text, width)
        self.time_in = nn.Sequential(nn.Linear(1, width), nn.SiLU(), nn.Linear(width, width))
        self.block = nn.TransformerEncoderLayer(width, 2, 64, dropout=0.0, batch_first=True)
        self.proj_out = nn.Linear(width, channels)

    def forward(self, hidden, timestep, prompt_embed):
        b, c, h, w = hidden.shape
        tokens = self.proj_in(hidden.flatten(2).transpose(1, 2))
        cond = self.text_in(prompt_embed) + self.time_in(timestep[:, None])
        tokens = self.block(tokens + cond[:, None])
        return self.proj_out(tokens).transpose(1, 2).reshape(b, c, h, w)


def warmup_cosine(optimizer, warmup, total):
    def factor(step):
        if step < warmup:
            return step / max(1, warmup)
        return 0.5 * (1 + math.cos(math.pi * min(1.0, (step - warmup) / max(1, total - warmup))))

    return torch.optim.lr_scheduler.LambdaLR(optimizer, factor)


def train(args):
    accelerator = Accelerator(gradient_accumulation_steps=args.gradient_accumulation_steps, cpu=True)
    torch.manual_seed(args.seed)
    transformer = Transformer2D()
    optimizer = torch.optim.AdamW(
        transformer.parameters(), lr=args.learning_rate, weight_decay=args.adam_weight_decay, betas=(0.9, 0.999)
    )
    loader = DataLoader(LatentDataset(), batch_size=args.train_batch_size, shuffle=True, drop_last=True)
    lr_scheduler = warmup_cosine(optimizer, args.lr_warmup_steps, args.max_train_steps)
    transformer, optimizer, loader, lr_scheduler = accelerator.prepare(transformer, optimizer, loader, lr_scheduler)

    global_step, train_loss = 0, 0.0
    for epoch in range(args.num_train_epochs):
        transformer.train()
        for step, batch in enumerate(loader):
            with accelerator.accumulate(transformer):
                latents = batch["latents"]
                noise = torch.randn_like(latents)
                sigma = torch.sigmoid(torch.randn(latents.shape[0], device=latents.device))
                noisy = (1 - sigma[:, None, None, None]) * latents + sigma[:, None, None, None] * noise
                pred = transformer(noisy, sigma, batch["prompt_embed"])
                loss = F.mse_loss(pred.float(), (noise - latents).float())
                train_loss += accelerator.gather(loss.detach()).mean().item() / args.gradient_accumulation_steps

                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(transformer.parameters(), args.max_grad_norm)
                optimizer.step()
                lr_scheduler.step()
                optimizer.zero_grad()

            if accelerator.sync_gradients:
                global_step += 1
                accelerator.print(f"step {global_step} loss {train_loss:.4f} lr {lr_scheduler.get_last_lr()[0]:.2e}")
                train_loss = 0.0
            if global_step >= args.max_train_steps:
                break
    accelerator.end_training()
    return accelerator.unwrap_model(transformer)


if __name__ == "__main__":
    train(SimpleNamespace(**CONFIG))
