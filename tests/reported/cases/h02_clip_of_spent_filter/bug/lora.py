import torch
from torch import nn


class LoRALinear(nn.Module):
    def __init__(self, base, rank=4, alpha=4.0):
        super().__init__()
        self.base = base
        self.lora_down = nn.Linear(base.in_features, rank, bias=False)
        self.lora_up = nn.Linear(rank, base.out_features, bias=False)
        nn.init.normal_(self.lora_down.weight, std=1 / rank)
        nn.init.zeros_(self.lora_up.weight)
        self.scale = alpha / rank

    def forward(self, x):
        return self.base(x) + self.scale * self.lora_up(self.lora_down(x))


def add_adapter(model, targets=("to_q", "to_k", "to_v", "to_out"), rank=4):
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if name in targets and isinstance(child, nn.Linear):
                setattr(module, name, LoRALinear(child, rank))


class Attention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.to_q, self.to_k, self.to_v = nn.Linear(dim, dim), nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.to_out = nn.Linear(dim, dim)

    def forward(self, x):
        q, k, v = self.to_q(x), self.to_k(x), self.to_v(x)
        return self.to_out(torch.nn.functional.scaled_dot_product_attention(q, k, v))


class PixTransformer(nn.Module):
    def __init__(self, channels=4, dim=32, depth=2):
        super().__init__()
        self.proj_in = nn.Linear(channels + 1, dim)
        self.blocks = nn.ModuleList(Attention(dim) for _ in range(depth))
        self.proj_out = nn.Linear(dim, channels)

    def forward(self, x, timestep):
        t = timestep[:, None, None].expand(-1, x.shape[1], 1)
        h = self.proj_in(torch.cat([x, t], dim=-1))
        for block in self.blocks:
            h = h + block(h)
        return self.proj_out(h)
