import argparse

import torch
import torch.nn.functional as F
from lora import PixTransformer, add_adapter
from torch.utils.data import DataLoader, TensorDataset


def parse_args(argv=None):
    parser = argparse.ArgumentParser(description="LoRA fine-tuning of a diffusion transformer.")
    parser.add_argument("--learning_rate", type=float, default=1e-2)
    parser.add_argument("--max_grad_norm", type=float, default=0.01)
    parser.add_argument("--rank", type=int, default=4)
    parser.add_argument("--train_batch_size", type=int, default=8)
    parser.add_argument("--num_train_epochs", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args(argv)


def main(args):
    torch.manual_seed(args.seed)
    transformer = PixTransformer()
    transformer.requires_grad_(False)
    add_adapter(transformer, rank=args.rank)

    lora_layers = list(filter(lambda p: p.requires_grad, transformer.parameters()))

    optimizer = torch.optim.SGD(lora_layers, lr=args.learning_rate)
    data = TensorDataset(5 * torch.randn(64, 16, 4))
    loader = DataLoader(data, batch_size=args.train_batch_size, shuffle=True)

    for epoch in range(args.num_train_epochs):
        transformer.train()
        train_loss = 0.0
        for (latents,) in loader:
            noise = torch.randn_like(latents)
            timesteps = torch.rand(latents.shape[0])
            alpha = (1 - timesteps)[:, None, None]
            noisy_latents = alpha.sqrt() * latents + (1 - alpha).sqrt() * noise
            model_pred = transformer(noisy_latents, timesteps)
            loss = F.mse_loss(model_pred.float(), noise.float(), reduction="mean")
            train_loss += loss.item()

            loss.backward()
            params_to_clip = lora_layers
            torch.nn.utils.clip_grad_norm_(params_to_clip, args.max_grad_norm)
            optimizer.step()
            optimizer.zero_grad()
        print(f"epoch {epoch} loss {train_loss / len(loader):.4f}")
    return transformer


if __name__ == "__main__":
    main(parse_args())
