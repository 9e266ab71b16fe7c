from dataclasses import dataclass

import torch
from transformer import GPTModel


@dataclass
class TransformerConfig:
    vocab_size: int = 32
    hidden_size: int = 32
    num_attention_heads: int = 4
    num_layers: int = 2
    attention_dropout: float = 0.1
    seq_length: int = 16
    micro_batch_size: int = 8
    train_iters: int = 30
    eval_interval: int = 10
    eval_iters: int = 2
    lr: float = 1e-3


def get_batch(config, generator):
    start = torch.randint(0, config.vocab_size, (config.micro_batch_size, 1), generator=generator)
    stride = torch.randint(1, 4, (config.micro_batch_size, 1), generator=generator)
    text = (start + stride * torch.arange(config.seq_length + 1)) % config.vocab_size
    return text[:, :-1], text[:, 1:]


def train_step(model, optimizer, batch):
    tokens, labels = batch
    optimizer.zero_grad()
    loss = model(tokens, labels)
    loss.backward()
    optimizer.step()
    return loss.item()


def evaluate(model, config, generator):
    model.eval()
    with torch.no_grad():
        total = sum(model(*get_batch(config, generator)).item() for _ in range(config.eval_iters))
    model.train()
    return total / config.eval_iters


def pretrain(config):
    torch.manual_seed(1234)
    model = GPTModel(config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=config.lr)
    train_data, valid_data = torch.Generator().manual_seed(0), torch.Generator().manual_seed(1)
    model.train()
    for iteration in range(1, config.train_iters + 1):
        loss = train_step(model, optimizer, get_batch(config, train_data))
        if iteration % config.eval_interval == 0:
            print(f"iteration {iteration} | lm loss {loss:.4f} | validation {evaluate(model, config, valid_data):.4f}")
    return model


if __name__ == "__main__":
    pretrain(TransformerConfig())
