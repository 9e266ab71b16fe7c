"""Mixed precision with gradient accumulation, gradient clipping and a few switches."""
import argparse

import torch
from torch import nn


def get_parser():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--accumulate", type=int, default=3)
    p.add_argument("--steps", type=int, default=48)
    p.add_argument("--low-memory", action="store_true")
    return p


def main(argv=None):
    args = get_parser().parse_args(argv)
    torch.manual_seed(46)
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 5))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    scaler = torch.amp.GradScaler("cpu", init_scale=128.0)
    window_loss = 0.0
    updates = 0
    for step in range(1, args.steps + 1):
        x = torch.randn(12, 16)
        y = x[:, :5].argmax(dim=1)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = nn.functional.cross_entropy(model(x).float(), y) / args.accumulate
        scaler.scale(loss).backward()
        window_loss += loss.detach()  # verify: undetached-accumulation refuted
        if step % args.accumulate == 0:
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)  # verify: missing-zero-grad refuted
            scaler.update()
            optimizer.zero_grad(set_to_none=True)
            updates += 1
            if args.low_memory:
                torch.cuda.empty_cache()  # verify: empty-cache-in-loop not-reached
            if updates % 5 == 0:
                print(f"update {updates}: {window_loss.item() / 5:.4f}")
                window_loss = 0.0


if __name__ == "__main__":
    main()
