"""Optimizers that are made again or hold old tensors, and the settings of cuDNN while training steps."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from types import FrameType
from typing import Any

import torch

from torchlint_probe.checks._names import leaves_of
from torchlint_probe.claim import values_of
from torchlint_probe.observer import LineObserver, Observer


class Rebuilt(Observer):
    """rebuilt-optimizer: how many optimizers from the flagged line step on the parameters of the one before?"""

    def __init__(self, claim: Any, probe: Any) -> None:
        super().__init__(claim, probe)
        self._leaf: weakref.ref[torch.Tensor] | None = None
        self._known: weakref.WeakSet[Any] = weakref.WeakSet()

    def after_step(self, optimizer: Any) -> None:
        if not self.is_in(self.probe.sites.stacks[self.probe.made_at(optimizer)]):
            return
        self.counts["steps"] += 1
        if optimizer in self._known:
            return
        self._known.add(optimizer)
        leaves = leaves_of(optimizer)
        known = None if self._leaf is None else self._leaf()
        self.counts["again" if any(leaf is known for leaf in leaves) else "first"] += 1
        if leaves:
            self._leaf = weakref.ref(leaves[0])


class OldTensor(LineObserver):
    """optimizer-of-old-tensor: does an optimizer hold the named tensor before the statement, and not afterwards?"""

    def __init__(self, claim: Any, probe: Any) -> None:
        super().__init__(claim, probe)
        self._before: list[torch.Tensor] = []

    def before(self, frame: FrameType) -> None:
        self._before = [leaf for leaf in self._leaves(frame) if self._is_held(leaf)]

    def after(self, frame: FrameType) -> None:
        now = list(self._leaves(frame))
        before, self._before = self._before, []
        if before and now:
            lost = not any(self._is_held(leaf) for leaf in now)
            self.counts["lost" if lost else "kept"] += 1

    def before_step(self, optimizer: Any, evaluates: bool) -> None:
        self.counts["steps"] += self.counts["lost"] > 0

    def _leaves(self, frame: FrameType) -> Iterator[torch.Tensor]:
        for value in values_of(self.claim.names, frame):
            if isinstance(value, torch.nn.Module):
                yield from value.parameters()
            elif isinstance(value, torch.Tensor):
                yield value

    def _is_held(self, tensor: torch.Tensor) -> bool:
        return any(leaf is tensor for optimizer in self.probe.all_optimizers for leaf in leaves_of(optimizer))


class Benchmark(Observer):
    """benchmark-with-deterministic: are both settings on when an optimizer steps?"""

    def after_step(self, optimizer: Any) -> None:
        cudnn = torch.backends.cudnn
        self.counts["steps"] += 1
        is_deterministic = cudnn.deterministic or torch.are_deterministic_algorithms_enabled()
        self.counts["both"] += bool(cudnn.benchmark and is_deterministic)
