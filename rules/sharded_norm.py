"""Gradient norms of FSDP modules computed from a single shard."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from torchlint import Category, Rule
from torchlint.model import events, held_parameters, values
from torchlint.model.queries import clipping
from torchlint.syntax.python_ast import dotted


class ShardedClip(NamedTuple):
    """`clip` is PyTorch's own function, and `module` is sharded."""

    clip: events.Clip
    module: values.Value


class ShardedNorm(Rule):
    """FSDP gradients are clipped by the norm of a single shard.

    ## What it does
    Finds `torch.nn.utils.clip_grad_norm_` on parameters of a module wrapped in `FullyShardedDataParallel`.

    Not reported: `ShardingStrategy.NO_SHARD`, a strategy set by a variable, and `fully_shard`, whose tensors know
    their shards.

    ## Why is this bad?
    Each process holds a shard of every gradient, and the function computes only the norm of that shard. So each process
    scales its shard by a different factor. The step goes in the wrong direction, and training depends on the number of
    processes.

    ## Example
    ```python
    import torch
    from torch.distributed.fsdp import FullyShardedDataParallel

    def train(net, loader, criterion):
        model = FullyShardedDataParallel(net)
        optimizer = torch.optim.AdamW(model.parameters())
        for x, y in loader:
            optimizer.zero_grad()
            criterion(model(x), y).backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
    ```

    Use instead:
    ```python
    import torch
    from torch.distributed.fsdp import FullyShardedDataParallel

    def train(net, loader, criterion):
        model = FullyShardedDataParallel(net)
        optimizer = torch.optim.AdamW(model.parameters())
        for x, y in loader:
            optimizer.zero_grad()
            criterion(model(x), y).backward()
            model.clip_grad_norm_(1.0)
            optimizer.step()
    ```

    ## References
    - [FullyShardedDataParallel.clip_grad_norm_](https://docs.pytorch.org/docs/stable/fsdp.html#torch.distributed.fsdp.FullyShardedDataParallel.clip_grad_norm_)
    """

    code = "TL122"
    category = Category.CORRECTNESS
    triggers = ((b"FullyShardedDataParallel",), (b"clip_grad_norm",))
    calls = frozenset({"clip_grad_norm_"})

    def ask(self) -> Iterator[ShardedClip]:
        sharded = self.model.program.observations.sharded
        for trace in self.model.program.traces if sharded else ():
            for clip in trace.of(events.Clip):
                found, _ = held_parameters.sources_of([clip.parameters])
                modules = [item for item in found if item in sharded and set(sharded[item]) <= set(clip.path)]
                if modules and self._is_of_one_process(clip):
                    yield ShardedClip(clip, modules[0])

    def _is_of_one_process(self, clip: events.Clip) -> bool:
        """Whether a clipping with a bound uses PyTorch's own function, which ignores other processes."""
        program, call = self.model.program, self.model.tree.node(clip.site)
        if not isinstance(call, ast.Call) or clipping.is_unbounded(clip, self.model.tree):
            return False
        name = program.definitions_of(call).qualified(dotted(call.func), call)
        return name.startswith("torch.nn.utils.") and "clip_grad_norm" in name

    def report_ShardedClip(self, found: ShardedClip) -> None:
        name = found.module.label or "the module"
        self.report(
            found.clip.site,
            f"FSDP shards the gradients of `{name}`, so each process clips by the norm of its shard",
            help="call the FSDP module's own `clip_grad_norm_`, which uses the norm of all shards",
        )
