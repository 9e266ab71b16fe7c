"""One parameter and its gradient, as it was last seen."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Sequence

import torch

CLEAN, USED, STALE = range(3)

_SAMPLES = 16
"""The number of parameters per optimizer whose values are read, where identity and version do not decide."""

Mark = tuple["Slot", int, int]
"""Identity and version of a gradient: they change when something is added. Both are 0 where there is none."""


class Slot:
    """One parameter, and its gradient as it was last seen."""

    __slots__ = ("gradient", "had_gradient", "parameter", "sampled", "state", "trainable", "version")

    def __init__(self, parameter: torch.Tensor) -> None:
        self.parameter = weakref.ref(parameter)
        self.state = CLEAN
        self.gradient: weakref.ref[torch.Tensor] | None = None
        self.version = 0
        self.sampled = False
        self.had_gradient = False
        self.trainable = parameter.requires_grad

    def current(self) -> torch.Tensor | None:
        """The gradient that there is."""
        parameter = self.parameter()
        return None if parameter is None else parameter.grad

    def use(self) -> None:
        """A step has used the gradient."""
        gradient = self.current()
        if gradient is None:
            self.state = CLEAN
            return
        self.state = USED
        self.gradient = weakref.ref(gradient)
        self.version = gradient._version

    def kept(self) -> torch.Tensor | None:
        """The gradient, if it is still the one that was used."""
        gradient = self.current()
        if gradient is None or self.gradient is None or self.gradient() is not gradient:
            return None
        return gradient

    def unused(self) -> torch.Tensor | None:
        """The gradient, if no step has used it as it is."""
        gradient = self.current()
        return None if self.state == USED and self.kept() is gradient else gradient


def choose_samples(slots: Sequence[Slot]) -> list[Slot]:
    """The smallest parameter in each of several equal stretches of the list: a cheap sample of all parts of a model."""
    for slot in slots:
        slot.sampled = False
    count = len(slots)
    if count <= _SAMPLES:
        chosen = list(slots)
    else:
        bounds = [round(index * count / _SAMPLES) for index in range(_SAMPLES + 1)]
        chosen = [min(slots[start:end], key=_size) for start, end in itertools.pairwise(bounds)]
    for slot in chosen:
        slot.sampled = True
    return chosen


def marks(slots: Sequence[Slot]) -> list[Mark]:
    """The marks of the slots' current gradients."""
    found = []
    for slot in slots:
        parameter = slot.parameter()
        if parameter is not None:
            gradient = parameter.grad
            found.append((slot, 0, 0) if gradient is None else (slot, id(gradient), gradient._version))
    return found


def _size(slot: Slot) -> int:
    parameter = slot.parameter()
    return 0 if parameter is None else parameter.numel()
