"""Units of a layer return zero for every sample in all batches, so they no longer get a gradient.

For each line that calls `relu` in a training pass, the check records which units returned only zeros. Units are the
entries of the last dimension, or the channels. It reports a problem if at least nine in ten units did so in each of at
least ten calls, with gradients on. A unit that is zero for one batch only is sparse, which is fine.

Source: Lu, Shin, Su and Karniadakis, "Dying ReLU and Initialization" (2019).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch.nn import functional

from torchlint_probe.checks.check import Check, Operated, Sighting

_CALLS = 10
_SHARE = 0.9
_MOST_CALLS = 20
_SAMPLES = 4


class _Line:
    """The units that were zero in all calls of a line; None if shapes differ."""

    def __init__(self) -> None:
        self.calls = 0
        self.dead: torch.Tensor | None = None
        self.is_alive = False
        """Whether too many units have been nonzero: their number can only grow."""

    def add(self, output: torch.Tensor) -> None:
        self.calls += 1
        channels = 1 if output.dim() > 3 else output.dim() - 1
        others = [dimension for dimension in range(output.dim()) if dimension != channels]
        dead = (output.detach() == 0).all(others) if len(others) == 1 else (output.detach().abs().amax(others) == 0)
        if self.dead is None or self.dead.shape != dead.shape:
            self.dead = dead if self.calls == 1 else torch.zeros_like(dead)
        else:
            self.dead &= dead
        self.is_alive = float(self.dead.float().mean()) < _SHARE


class DeadUnits(Check):
    """Reads the results of `relu`, in its first calls from each line."""

    name = "dead-units"
    code = "TW106"

    def __init__(self, probe: Any) -> None:
        super().__init__(probe)
        self._lines: dict[tuple[int, int], _Line] = {}

    def operators(self) -> Mapping[Any, Operated]:
        kinds = (functional.relu, torch.relu, torch.relu_, torch.Tensor.relu, torch.Tensor.relu_)
        return dict.fromkeys(kinds, self._operated)

    def _operated(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        if result.grad_fn is None or result.dim() < 2 or result.shape[0] < _SAMPLES:
            return
        site = self.probe.sites.here()
        line = self._lines.setdefault((site, result.shape[-1]), _Line())
        if line.calls < _MOST_CALLS and not line.is_alive:
            line.add(result)

    def sightings(self) -> Iterator[Sighting]:
        for (site, _), line in list(self._lines.items()):
            if line.calls < _CALLS or line.dead is None or not self.probe.finished:
                continue
            dead, units = int(line.dead.sum()), line.dead.numel()
            if dead >= _SHARE * units:
                message = f"{dead:,} of {units:,} units were zero for every sample of {line.calls:,} batches"
                yield Sighting(site, message, {"dead": dead, "units": units, "batches": line.calls})
