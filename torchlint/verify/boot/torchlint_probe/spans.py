"""Spans of time: batches that are waited for, outermost forward passes, backwards, and steps of optimizers."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from torchlint_probe.hooks import Hooks
    from torchlint_probe.probe import Probe

_MOST = 50_000


class Spans:
    """Recorded only for a trace. On a GPU they are times of the process, which does not wait for the GPU."""

    def __init__(self, probe: Probe, wanted: bool) -> None:
        self.all: list[dict[str, Any]] = []
        self.wanted = wanted
        self._probe = probe
        self._step = 0

    def tap(self, hooks: Hooks) -> None:
        """Put the hooks in place, inside of those that look at what happens."""
        if self.wanted:
            hooks.replace(torch.autograd, "backward", _Around(self._probe, "backward"))
            hooks.replace(torch.utils.data.dataloader._BaseDataLoaderIter, "__next__", _Around(self._probe, "data"))

    def now(self) -> int:
        """The time in microseconds, by a clock that all processes share; 0 if no trace is needed."""
        return time.time_ns() // 1000 if self.wanted else 0

    def add(self, kind: str, name: str, start: int) -> None:
        """Something that began at `start` has ended."""
        if self.wanted and len(self.all) < _MOST:
            span = {"kind": kind, "name": name, "start": start, "end": self.now(), "step": self._probe.steps}
            self.all.append(span)

    def begin_step(self) -> None:
        """The outermost step of an optimizer begins."""
        self._step = self.now()

    def end_step(self, optimizer: Any) -> None:
        """It has ended."""
        self.add("step", type(optimizer).__name__, self._step)


class _Around:
    """Wraps a function whose time is measured."""

    def __init__(self, probe: Probe, kind: str) -> None:
        self._probe = probe
        self._kind = kind

    def __call__(self, original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        start = self._probe.spans.now()
        try:
            return original(*args, **kwargs)
        finally:
            self._probe.spans.add(self._kind, self._kind, start)
