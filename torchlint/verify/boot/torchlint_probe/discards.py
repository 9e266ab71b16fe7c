"""Gradients that a line clears before a step has used them, and that later backwards replace.

Several backwards from one place, each cleared before the next, and a step on the last: this is an accumulation that is
cleared too often. Some programs do it on purpose. They collect the gradients and assign a sum, so the step uses other
gradients than the last backward. They go backward from changed weights, so the weights differ at the step. Or they
skip bad batches, so the number before each step varies.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from torchlint_probe.averages import sample
from torchlint_probe.values import norm

if TYPE_CHECKING:
    from torchlint_probe.ledger import Ledger
    from torchlint_probe.slots import Slot

_ALIKE = 0.999
"""The minimum cosine of two gradients that only differ in size, such as a clipped one."""


class Discards:
    """The gradients of one optimizer that one line has discarded since the optimizer's last step."""

    def __init__(self) -> None:
        self._weights: list[torch.Tensor] = []
        """Samples of the weights at which the last backward was made."""
        self._thrown: dict[int, tuple[int, list[torch.Tensor]]] = {}
        """The discarded backwards by number: their sites and weights."""
        self._given: list[tuple[Slot, torch.Tensor, torch.Tensor]] = []
        """Gradients after the last backward, with samples of their values."""

    def feed(self, ledger: Ledger) -> None:
        """A backward has computed gradients."""
        self._weights = _weights(ledger)
        if self._thrown:
            self._given = [
                (slot, gradient, sample(gradient))
                for slot in ledger.samples
                if (gradient := slot.current()) is not None and not gradient.is_sparse
            ]

    def throw(self, ledger: Ledger) -> None:
        """The line has cleared the gradients of the last backward."""
        self._thrown[ledger.round.backwards] = ledger.round.last, self._weights

    def use(self, ledger: Ledger) -> int:
        """The number of discarded backwards from the same place, if a step uses gradients of the last backward."""
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
        return bool(one @ other >= _ALIKE * norm(one) * norm(other))


def _weights(ledger: Ledger) -> list[torch.Tensor]:
    return [sample(leaf) for slot in ledger.samples if (leaf := slot.parameter()) is not None]


def _are_same(some: list[torch.Tensor], others: list[torch.Tensor]) -> bool:
    return len(some) == len(others) and all(map(torch.equal, some, others))
