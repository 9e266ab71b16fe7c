"""Gradients that a line clears before a step has used them, and that later backwards replace.

Several backwards from one place, each cleared before the next, and a step on the last: so does an accumulation that is
cleared too often. Others do so on purpose: they collect the gradients and assign a sum (then the step uses others than
the last backward gave), go back from changed weights (then these are others at the step), or leave out bad batches
(then there are not as many before each step).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from torchlint_probe.averages import sample

if TYPE_CHECKING:
    from torchlint_probe.ledger import Ledger
    from torchlint_probe.slots import Slot

_ALIKE = 0.999
"""The cosine of two gradients that are the same but for their size, as a clipped one is."""


class Discards:
    """What one line has thrown away of one optimizer's gradients since its last step."""

    def __init__(self) -> None:
        self._sites: dict[int, int] = {}
        """Where the backwards were, by their numbers."""
        self._weights: list[torch.Tensor] = []
        self._given: list[tuple[Slot, torch.Tensor, torch.Tensor]] = []
        """Gradients as the last backward has left them, with samples of their values."""

    def throw(self, ledger: Ledger) -> None:
        """The line has cleared what the last backward gave."""
        self._sites[ledger.round.backwards] = ledger.round.last
        self._weights = [sample(leaf) for slot in ledger.samples if (leaf := slot.parameter()) is not None]

    def feed(self, ledger: Ledger) -> None:
        """Another backward has given gradients, after something was thrown away."""
        self._given = [
            (slot, gradient, sample(gradient))
            for slot in ledger.samples
            if (gradient := slot.current()) is not None and not gradient.is_sparse
        ]

    def use(self, ledger: Ledger) -> int:
        """A step begins on what the last backward gave: how many earlier ones from the same place were thrown away."""
        site = ledger.round.last
        if not self._given or not self._is_as_given() or not self._has_same_weights(ledger.samples):
            return 0
        return sum(thrown == site for thrown in self._sites.values())

    def _is_as_given(self) -> bool:
        before, now = [], []
        for slot, gradient, values in self._given:
            if slot.current() is not gradient:
                return False
            before.append(values)
            now.append(sample(gradient))
        one, other = torch.cat(before).double(), torch.cat(now).double()
        return bool(one @ other >= _ALIKE * one.norm() * other.norm())

    def _has_same_weights(self, samples: Sequence[Slot]) -> bool:
        weights = [sample(leaf) for slot in samples if (leaf := slot.parameter()) is not None]
        return len(weights) == len(self._weights) and all(map(torch.equal, weights, self._weights))
