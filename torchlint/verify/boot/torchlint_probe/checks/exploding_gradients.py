"""Gradients grow a thousandfold within a few steps and stay that large.

At each step, the check computes the norm of all gradients of the optimizer, after clipping. It reports a problem if
three steps in a row used more than a thousand times the median of the first five, and none of these five was zero.
`nonfinite-value` reports gradients that are infinite or NaN.

Source: Pascanu, Mikolov and Bengio, "On the difficulty of training recurrent neural networks" (2013).
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from statistics import median
from typing import Any

import torch

from torchlint_probe.checks._gradient_norms import GradientNorms
from torchlint_probe.checks.check import Sighting

_FIRST = 5
_ROW = 3
_FACTOR = 1000.0


class _Norms:
    def __init__(self) -> None:
        self.first: list[float] = []
        self.row = 0


class ExplodingGradients(GradientNorms):
    """Compares the steps of one optimizer."""

    name = "exploding-gradients"
    code = "TW104"

    def __init__(self, probe: Any) -> None:
        super().__init__(probe)
        self._norms: weakref.WeakKeyDictionary[Any, _Norms] = weakref.WeakKeyDictionary()
        self._seen: dict[int, Sighting] = {}

    def measured(self, optimizer: Any, leaves: list[torch.Tensor], norms: list[float]) -> None:
        norm = sum(item * item for item in norms) ** 0.5
        seen = self._norms.get(optimizer) or self._norms.setdefault(optimizer, _Norms())
        if len(seen.first) < _FIRST:
            seen.first.append(norm)
            return
        usual = median(seen.first)
        seen.row = seen.row + 1 if min(seen.first) > 0 and _FACTOR * usual < norm < float("inf") else 0
        if seen.row == _ROW:
            site, step = self.probe.sites.here(), self.probe.steps - _ROW + 1
            message = f"gradients have grown from a norm of {usual:.3g} to {norm:.3g}"
            self._seen.setdefault(site, Sighting(site, message, {"usual": usual, "norm": norm}, step))

    def sightings(self) -> Iterator[Sighting]:
        yield from list(self._seen.values())
