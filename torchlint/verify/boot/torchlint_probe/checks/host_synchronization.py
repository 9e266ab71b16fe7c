"""A line makes the host wait for the device again and again within one pass of the model.

The check records where the program reads values of the model from tensors: `item()`, `tolist()`, `cpu()`, `float()`,
`int()`, `bool()`, a condition, or printing. It reports a problem if a line reads at least twice between two calls of
the model, or two steps, around at least ten steps. The model must have computed something new between the two reads.
Each time the device finishes all its work and then idles until the host has caught up. Consecutive reads, such as
losses for a log, count as one wait.

On a CPU a value belongs to the model if it has a graph or was detached from one. Nothing waits there, so the report
says how often a GPU would wait. Some programs need each of these values, so the check is off by default.

Source: "Avoid unnecessary CPU-GPU synchronization" in PyTorch's "Performance Tuning Guide".
"""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Iterator
from typing import Any

import torch

from torchlint_probe.checks.check import Check, Sighting

_STEPS = 10
_TIMES = 2
_NAMES = ("item", "tolist", "cpu", "__float__", "__int__", "__bool__", "__index__", "__repr__", "__format__")
_WAITING = {getattr(torch.Tensor, name): name for name in _NAMES}


class _Line:
    """The steps around which a line waited repeatedly, and its maximum number of waits in one pass."""

    def __init__(self) -> None:
        self.steps: set[int] = set()
        self.most = 0
        self.names: set[str] = set()


class HostSynchronization(Check):
    """Counts the waits of each line from one call of a model, or step, to the next."""

    name = "host-synchronization"
    code = "TW503"
    is_on = False

    def __init__(self, probe: Any) -> None:
        super().__init__(probe)
        self._waits: Counter[int] = Counter()
        """By site, since the last call of a model or step."""
        self._names: dict[int, set[str]] = {}
        self._detached: dict[int, weakref.ref[torch.Tensor]] = {}
        """By identity, in this pass."""
        self._has_worked = False
        """Whether the model has computed something since the last wait."""
        self._lines: dict[int, _Line] = {}

    def operated(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        if func in _WAITING:
            if self._has_worked and args and self._is_of_the_model(args[0]):
                self._wait(_WAITING[func])
        elif isinstance(result, torch.Tensor):
            if result.requires_grad or not result.is_cpu:
                self._has_worked = True
            elif func is torch.Tensor.detach and args[0].requires_grad:
                self._detached[id(result)] = weakref.ref(result)

    def _is_of_the_model(self, tensor: torch.Tensor) -> bool:
        if not tensor.is_cpu or tensor.requires_grad:
            return True
        detached = self._detached.get(id(tensor))
        return detached is not None and detached() is tensor

    def _wait(self, name: str) -> None:
        self._has_worked = False
        site = self.probe.sites.here()
        self._waits[site] += 1
        self._names.setdefault(site, set()).add(name)

    def called(self, module: torch.nn.Module, args: Any, output: Any) -> None:
        self._pass()

    def after_step(self, optimizer: Any) -> None:
        self._pass()

    def _pass(self) -> None:
        for site, count in self._waits.items():
            if site and count >= _TIMES:
                line = self._lines.setdefault(site, _Line())
                line.steps.add(self.probe.steps)
                line.most = max(line.most, count)
                line.names |= self._names[site]
        self._waits.clear()
        self._names.clear()
        self._detached.clear()

    def sightings(self) -> Iterator[Sighting]:
        for site, line in list(self._lines.items()):
            if len(line.steps) >= _STEPS:
                names = ", ".join(f"`{name}`" for name in sorted(line.names))
                message = f"{names} makes the host wait for the device {line.most:,} times in one pass of the model"
                if self.probe.meter.device == "cpu":
                    message = f"on a GPU {message}; on this CPU that costs nothing"
                yield Sighting(site, message, {"waits": line.most, "steps": len(line.steps)}, min(line.steps))
