"""Random programs that change tensors in place, with loops and branches, and end with a backward."""

from __future__ import annotations

import random

HEAD = """\
import torch
import torch.nn.functional as F
from torch import nn

linear = nn.Linear(3, 3)
norm = nn.LayerNorm(3)
rectify = nn.ReLU(inplace=True)
"""
COMPUTED = """\
torch.sin({x})
{x}.exp()
torch.sigmoid({x})
{x}.tanh()
F.relu({x})
F.softmax({x}, dim=1)
{x} * w
{x} + w
{x} @ w
{x}.view(3, 3)
{x}.reshape(3, 3)
{x}.t()
{x}.transpose(0, 1)
{x}.detach()
{x}.clone()
{x} * 2
{x} + 1
torch.cat([{x}, {y}])[:3]
{x} * {y}
{x} + {y}
{x} @ {y}
{x}.contiguous()
{x}.pow(2)
{x} / ({y} + 5)
{x}.squeeze()
{x}.clamp(0, 1)
{x}.abs()
linear({x})
torch.where({x} > 0, {x}, {y})
{x}.mean(1, keepdim=True) + {y}
{x}.float()
torch.stack([{x}, {y}]).sum(0)
F.dropout({x})
F.layer_norm({x}, (3,))
{x}.cumsum(0)
F.gelu({x})
F.elu({x})
F.leaky_relu({x})
norm({x})
torch.einsum("ij,jk->ik", {x}, {y})
""".splitlines()
CHANGED = """\
{x} += 1
{x} *= 2
{x} += {y}
{x} *= {y}
{x}.add_(1)
{x}.mul_(2)
{x}.zero_()
{x}[0] = 1.0
{x}[:, 0] += 1
{x}[0] *= 2
{x}.clamp_(0, 1)
{x}.relu_()
{x}.sigmoid_()
{x}.fill_diagonal_(0)
{x}[{y} > 0] = 0
{x}.copy_({y})
{x}.view(-1)[0] = 1
{x}.masked_fill_({y} > 0, 0)
F.relu({x}, inplace=True)
rectify({x})
""".splitlines()


def programs(seed: int, number: int) -> str:
    """A module with functions `f0(x, w, flag)` to `f<number - 1>`, each of one random program."""
    chance = random.Random(seed)
    return HEAD + "".join(_function(chance, index) for index in range(number))


def _function(chance: random.Random, index: int) -> str:
    names = ["a", "b"]
    body = _block(chance, chance.randint(3, 6), "    ", names)
    total = " + ".join(f"{name}.sum()" for name in chance.sample(names, 2))
    start = "    a = linear(x)\n    b = torch.tanh(linear(x)) * w\n"
    return f"\n\ndef f{index}(x, w, flag):\n{start}{body}    ({total}).backward()\n"


def _block(chance: random.Random, statements: int, indent: str, names: list[str]) -> str:
    return "".join(_statement(chance, indent, names) for _ in range(statements))


def _statement(chance: random.Random, indent: str, names: list[str]) -> str:
    kind, x, y = chance.random(), chance.choice(names), chance.choice(names)
    if kind < 0.55:
        target = chance.choice("abcd")
        if len(indent) == 4 and target not in names:
            names.append(target)
        return f"{indent}{target} = {chance.choice(COMPUTED).format(x=x, y=y)}\n"
    if kind < 0.85:
        return f"{indent}{chance.choice(CHANGED).format(x=x, y=y)}\n"
    if len(indent) == 12:
        return f"{indent}pass\n"
    header = chance.choice(["for _ in range(2):", "if flag:", "if not flag:"])
    return f"{indent}{header}\n{_block(chance, chance.randint(1, 3), indent + '    ', [*names])}"
