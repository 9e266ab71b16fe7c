from contextlib import nullcontext
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from metrics import estimate_loss, evaluate_next_token
from torch import nn
from torch.utils.data import DataLoader, Dataset


@dataclass
class Config:
    vocab_size: int = 24
    n_positions: int = 12
    n_embd: int = 32
    n_layer: int = 2
    dropout: float = 0.3
    lr: float = 3e-3
    batch_size: int = 16
    max_iters: int = 40
    eval_interval: int = 20
    eval_iters: int = 4


class TimelineDataset(Dataset):
    """Patient timelines: each token depends on the one before it."""

    def __init__(self, config, size, seed):
        g = torch.Generator().manual_seed(seed)
        first = torch.randint(0, config.vocab_size, (size, 1), generator=g)
        self.tokens = (first + 5 * torch.arange(config.n_positions + 1)) % config.vocab_size

    def __len__(self):
        return len(self.tokens)

    def __getitem__(self, i):
        return self.tokens[i, :-1], self.tokens[i, 1:]


class TimelineGPT(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.wte = nn.Embedding(config.vocab_size, config.n_embd)
        self.wpe = nn.Parameter(0.02 * torch.randn(config.n_positions, config.n_embd))
        self.drop = nn.Dropout(config.dropout)
        layer = nn.TransformerEncoderLayer(config.n_embd, 4, 4 * config.n_embd, config.dropout, batch_first=True)
        self.h = nn.TransformerEncoder(layer, config.n_layer, enable_nested_tensor=False)
        self.lm_head = nn.Linear(config.n_embd, config.vocab_size)

    def forward(self, input_ids, labels=None):
        n = input_ids.shape[1]
        mask = nn.Transformer.generate_square_subsequent_mask(n)
        x = self.h(self.drop(self.wte(input_ids) + self.wpe[:n]), mask=mask, is_causal=True)
        logits = self.lm_head(x)
        loss = None if labels is None else F.cross_entropy(logits.flatten(0, 1), labels.flatten())
        return {"loss": loss, "logits": logits}


def cycle(loader):
    while True:
        yield from loader


def main(config):
    torch.manual_seed(42)
    train_loader = DataLoader(TimelineDataset(config, 256, 0), config.batch_size, shuffle=True)
    val_loader = DataLoader(TimelineDataset(config, 64, 1), config.batch_size)
    model = TimelineGPT(config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=config.lr, weight_decay=0.1)
    ctx = nullcontext()
    best_val_loss, train_iter = float("inf"), cycle(train_loader)
    for iter_num in range(1, config.max_iters + 1):
        X, Y = next(train_iter)
        with ctx:
            loss = model(input_ids=X, labels=Y)["loss"]
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if iter_num % config.eval_interval == 0:
            losses = estimate_loss(model, ctx, {"train": train_loader, "val": val_loader}, config.eval_iters)
            print(f"step {iter_num}: train {losses['loss/train']:.4f} val {losses['loss/val']:.4f}")
            best_val_loss = min(best_val_loss, losses["loss/val"])
    accuracy = evaluate_next_token(model, val_loader)
    print(f"next token accuracy {accuracy:.3f}")
    return model, accuracy


if __name__ == "__main__":
    main(Config())
