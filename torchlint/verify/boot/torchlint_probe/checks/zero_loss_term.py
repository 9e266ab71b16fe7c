"""A term of the loss is exactly zero at every step, so nothing learns from it.

For each sum of two numbers with graphs, the check asks whether one of them is zero. It reports a problem if the same
side of a line was zero in at least its first twenty calls. A factor that is zero, as in a warm-up of the weight, is
intended, so such terms are not reported. The result is inconclusive, because a term may start to count later. The
reported line is the one that computed the term.

Source: "A Recipe for Training Neural Networks" (Karpathy, 2019): look at each part of the loss.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from torchlint_probe.checks.check import Check, Operated, Sighting
from torchlint_probe.operators import origin

_SUMS = (torch.Tensor.add, torch.Tensor.__add__, torch.Tensor.__radd__, torch.Tensor.__iadd__, torch.add)
_PRODUCTS = (torch.Tensor.mul, torch.Tensor.__mul__, torch.Tensor.__rmul__, torch.mul)
_CALLS = 20
_MOST_CALLS = 40
_MOST_LINES = 100
_ADVICE = "check the term: a mask may be empty, or a bound may cut off every value"


class _Side:
    """One side of the sums of a line: answers whether it was zero, and where it was computed."""

    def __init__(self) -> None:
        self.answers: list[torch.Tensor] = []
        self.site = 0
        self.is_meant = False

    @property
    def is_zero(self) -> bool:
        """Whether it was zero at each call. This waits for the device."""
        return len(self.answers) >= _CALLS and not self.is_meant and all(bool(answer) for answer in list(self.answers))


class ZeroLossTerm(Check):
    """Compares the sides of sums with zero."""

    name = "zero-loss-term"
    code = "TW113"
    uses_lines = True

    def __init__(self, probe: Any) -> None:
        super().__init__(probe)
        self._sides: dict[tuple[int, int], _Side] = {}
        self._weighted: dict[int, weakref.ref[torch.Tensor]] = {}
        """By identity, products with a factor that may be zero on purpose."""

    def operators(self) -> Mapping[Any, Operated]:
        return {**dict.fromkeys(_SUMS, self._added), **dict.fromkeys(_PRODUCTS, self._multiplied)}

    def _multiplied(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        if isinstance(result, torch.Tensor) and result.numel() == 1 and result.requires_grad:
            if any(_may_be_zero(item) for item in args):
                self._weighted[id(result)] = weakref.ref(result)

    def _added(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        if not isinstance(result, torch.Tensor) or result.numel() != 1 or len(args) < 2:
            return
        if not all(isinstance(item, torch.Tensor) and item.requires_grad and item.numel() == 1 for item in args[:2]):
            return
        site = self.probe.sites.here()
        for number, item in enumerate(args[:2]):
            side = self._sides.get((site, number))
            if side is None:
                if len(self._sides) >= _MOST_LINES:
                    return
                side = self._sides[site, number] = _Side()
            if len(side.answers) < _MOST_CALLS and not side.is_meant:
                weighted = self._weighted.get(id(item))
                side.is_meant = weighted is not None and weighted() is item
                side.answers.append(item.detach() == 0)
                side.site = origin(item.grad_fn).site if item.grad_fn is not None else 0

    def after_step(self, optimizer: Any) -> None:
        self._weighted.clear()

    def sightings(self) -> Iterator[Sighting]:
        for (site, _), side in list(self._sides.items()):
            if site and side.is_zero:
                calls = len(side.answers)
                message = f"this term of the loss was exactly zero in {calls:,} of {calls:,} sums"
                yield Sighting(side.site or site, message, {"sums": calls}, 0, _ADVICE)


def _may_be_zero(factor: Any) -> bool:
    """Whether a factor is the number 0, or a tensor without a graph, whose value the check does not read."""
    if isinstance(factor, torch.Tensor):
        return not factor.requires_grad
    return isinstance(factor, (int, float)) and factor == 0
