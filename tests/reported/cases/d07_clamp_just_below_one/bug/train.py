import torch

from losses import pair_consistency_loss, span_loss
from model import BoundaryModel

TOKENS = 6


def batches(count, generator):
    for _ in range(count):
        tokens = torch.randn(16, TOKENS, 16, generator=generator)
        starts = (tokens[..., 0] > 0).float()
        pairs = (starts.unsqueeze(2) * (tokens[..., 1] > 0).unsqueeze(1)).flatten(1)
        lengths = torch.randint(3, TOKENS + 1, (16, 1), generator=generator)
        inside = (torch.arange(TOKENS)[None] < lengths).float()
        yield tokens, starts, pairs, inside, (inside.unsqueeze(2) * inside.unsqueeze(1)).flatten(1)


def train_step(model, optimizer, batch, weight=0.1):
    tokens, starts, pairs, inside, pair_mask = batch
    owners = torch.arange(TOKENS).repeat_interleave(TOKENS).expand(len(tokens), -1)
    optimizer.zero_grad()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        marginal_logits, pair_logits = model(tokens)
        loss = span_loss(marginal_logits, starts, inside) + span_loss(pair_logits, pairs, pair_mask)
        loss = loss + weight * pair_consistency_loss(pair_logits, marginal_logits, owners, pair_mask)
    loss.backward()
    optimizer.step()
    return loss.item()


def main():
    torch.manual_seed(0)
    model = BoundaryModel()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    history = [train_step(model, optimizer, b) for b in batches(120, torch.Generator().manual_seed(8))]
    broken = sum(not p.isfinite().all() for p in model.parameters())
    print(f"first loss {history[0]:.3f}, last loss {history[-1]:.3f}, parameters not finite {broken}")


if __name__ == "__main__":
    main()
