"""Do the parameters of an optimizer move with its steps? A gradient that is there may still not be what a step used."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from torchlint_probe.slots import Slot
from torchlint_probe.values import dense

_STEPS = 3
"""The number of observed steps,"""
_PATIENCE = 10
"""and the number while parameters do not move: the first steps of a schedule may be too small."""
_ELEMENTS = 64


class Movement:
    """Observed steps at which something `moved`, or all stood `still`."""

    def __init__(self) -> None:
        self.moved = self.still = 0
        self._movers: set[Slot] = set()
        self._unmoved: set[Slot] = set()
        self._before: list[tuple[Slot, torch.Tensor, torch.Tensor, bool]] = []

    @property
    def unmoved(self) -> int:
        """Sampled parameters that had a gradient other than zero, and never moved."""
        return len(self._unmoved)

    @property
    def looks(self) -> int:
        """The number of observed steps."""
        return self.moved + self.still

    @property
    def still_slots(self) -> list[Slot]:
        """The parameters that `unmoved` counts."""
        return list(self._unmoved)

    def before_step(self, samples: Sequence[Slot]) -> None:
        """Store the values of some elements, and whether they have a gradient."""
        if self.looks >= (_PATIENCE if self._unmoved else _STEPS):
            return
        self._before = [
            (slot, parameter, _beginning(parameter).clone(), _pulls(parameter.grad))
            for slot in samples
            if (parameter := slot.parameter()) is not None and parameter.grad is not None
        ]

    def after_step(self) -> None:
        """Compare."""
        if not self._before:
            return
        moved = {slot for slot, parameter, before, _ in self._before if not torch.equal(_beginning(parameter), before)}
        self.moved += bool(moved)
        self.still += not moved
        self._movers |= moved
        self._unmoved |= {slot for slot, _, _, pulled in self._before if pulled}
        self._unmoved -= self._movers
        self._before = []


def _beginning(tensor: torch.Tensor) -> torch.Tensor:
    return dense(tensor).detach().reshape(-1)[:_ELEMENTS]


def _pulls(gradient: torch.Tensor) -> bool:
    """Whether these elements have a nonzero gradient; unknown for a sparse one."""
    return not gradient.is_sparse and bool(_beginning(gradient).any())
