"""Two optimizers update the same parameter, each with its own state and learning rate.

At each step, the check lists the parameters with a gradient that another optimizer has updated too. It reports a
problem if both optimizers hold some of the same parameters and took at least five steps with gradients for them. The
check leaves out optimizers that call each other's `step`. An encoder that two tasks share looks like this: each step of
one optimizer breaks the assumptions behind the momentum and averages of the other. Some programs need that, so the
check is off by default.

Source: "Per-parameter options" in PyTorch's documentation of `torch.optim`: an optimizer refuses a parameter that is in
two of its groups.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import Any

from torch.utils.weak import WeakTensorKeyDictionary

from torchlint_probe.checks._names import leaves_of
from torchlint_probe.checks.check import Check, Sighting

_TURNS = 5


class ParameterInTwoOptimizers(Check):
    """Stores the optimizer that last updated a parameter."""

    name = "parameter-in-two-optimizers"
    code = "TW207"
    is_on = False

    def __init__(self, probe: Any) -> None:
        super().__init__(probe)
        self._last: Any = WeakTensorKeyDictionary()
        """By parameter, a reference to the optimizer that last updated it."""
        self._turns: Any = WeakTensorKeyDictionary()
        """By parameter, how often a different optimizer than before updated it."""
        self._seen: dict[int, Sighting] = {}

    def before_step(self, optimizer: Any) -> None:
        if len(self.probe.local.stepping) > 1:
            return  # an optimizer inside another one
        this = weakref.ref(optimizer)
        for leaf in leaves_of(optimizer):
            if leaf.grad is None:
                continue
            last = self._last.get(leaf)
            self._last[leaf] = this
            if last is not None and last() is not None and last() is not optimizer:
                self._turns[leaf] = self._turns.get(leaf, 0) + 1
        shared = [leaf for leaf in leaves_of(optimizer) if self._turns.get(leaf, 0) >= 2 * _TURNS]
        if shared:
            site = self.probe.made_at(optimizer)
            message = f"{self.models.named(shared)} are in this optimizer and in another, and both update them in turn"
            self._seen[site] = Sighting(site, message, {"parameters": len(shared)}, 0)

    def sightings(self) -> Iterator[Sighting]:
        yield from list(self._seen.values())
