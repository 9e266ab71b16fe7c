"""Gradients that a line clears before a step has used them, and that later backwards replace.

Several backwards from one place, each cleared before the next, and a step on the last: so does an accumulation that is
cleared too often. Others do so on purpose: they collect the gradients and assign a sum (then the step uses others than
the last backward gave), go back from changed weights (then these are others at the step), or leave out bad batches
(then there are not as many before each step).
"""

from __future__ import annotations

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
        self._weights: list[torch.Tensor] = []
        """Samples of the weights at which the last backward was made."""
        self._thrown: dict[int, tuple[int, list[torch.Tensor]]] = {}
        """The backwards that were for nothing, by their numbers: where they were, and at which weights."""
        self._given: list[tuple[Slot, torch.Tensor, torch.Tensor]] = []
        """Gradients as the last backward has left them, with samples of their values."""

    def feed(self, ledger: Ledger) -> None:
        """A backward has given gradients."""
        self._weights = _weights(ledger)
        if self._thrown:
            self._given = [
                (slot, gradient, sample(gradient))
                for slot in ledger.samples
                if (gradient := slot.current()) is not None and not gradient.is_sparse
            ]

    def throw(self, ledger: Ledger) -> None:
        """The line has cleared what the last backward gave."""
        self._thrown[ledger.round.backwards] = ledger.round.last, self._weights

    def use(self, ledger: Ledger) -> int:
        """A step begins on what the last backward gave: how many earlier ones from the same place were thrown away."""
        if not self._given or not self._is_as_given():
            return 0
        now = _weights(ledger)
        return sum(site == ledger.round.last and _are_same(weights, now) for site, weights in self._thrown.values())

    def _is_as_given(self) -> bool:
        before, now = [], []
        for slot, gradient, values in self._given:
            if slot.current() is not gradient:
                return False
            before.append(values)
            now.append(sample(gradient))
        one, other = torch.cat(before).double(), torch.cat(now).double()
        return bool(one @ other >= _ALIKE * one.norm() * other.norm())


def _weights(ledger: Ledger) -> list[torch.Tensor]:
    return [sample(leaf) for slot in ledger.samples if (leaf := slot.parameter()) is not None]


def _are_same(some: list[torch.Tensor], others: list[torch.Tensor]) -> bool:
    return len(some) == len(others) and all(map(torch.equal, some, others))
