"""None of the parameters of an optimizer ever gets a gradient, because no loss depends on them.

Before and after each step, the check asks whether any parameter of the optimizer has had a gradient. It reports a
problem if none has after ten steps and ten backward passes. Optimizers that one line creates again and again count
together. If other optimizers do get gradients and torchlint stopped the program, the result is inconclusive. The
reported line is the one that created the optimizer.

Source: "TrainCheck" (OSDI 2025), silent errors of parameters that are not updated.
"""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Iterator
from typing import Any

from torchlint_probe.checks._names import leaves_of
from torchlint_probe.checks.check import Check, Sighting
from torchlint_probe.slots import Slot

_STEPS = 10
_TO_ITS_END = "run it to its end, with --max-steps 0: later steps may give one"


class OptimizerWithoutGradients(Check):
    """Looks for the first gradient of each optimizer."""

    name = "optimizer-without-gradients"
    code = "TW217"

    def __init__(self, probe: Any) -> None:
        super().__init__(probe)
        self._steps: Counter[int] = Counter()
        """By the site that made them, the steps of optimizers without any gradient."""
        self._good: set[int] = set()
        """Sites whose optimizers have had gradients."""
        self._fed: weakref.WeakSet[Any] = weakref.WeakSet()
        self._first: dict[int, weakref.ref[Any]] = {}
        """By site, the first optimizer without gradients that it made."""
        self._several: set[int] = set()
        """Sites that made several of them."""
        self._seen: dict[int, tuple[Sighting, list[Slot]]] = {}

    def before_step(self, optimizer: Any) -> None:
        if optimizer in self._fed:
            return
        site = self.probe.made_at(optimizer)
        if self._first.setdefault(site, weakref.ref(optimizer))() is not optimizer:
            self._several.add(site)
        self._steps[site] += 1
        self.after_step(optimizer)

    def after_step(self, optimizer: Any) -> None:
        if optimizer in self._fed:
            return
        site = self.probe.made_at(optimizer)
        leaves = [leaf for leaf in leaves_of(optimizer) if leaf.requires_grad]
        if any(leaf.grad is not None for leaf in leaves):
            self._fed.add(optimizer)
            self._good.add(site)
            self._seen.pop(site, None)
        elif leaves and self._steps[site] >= _STEPS <= self.probe.passed and site not in self._good:
            steps = self._steps[site]
            message = (
                f"in {steps:,} steps, none of the optimizer's parameters got a gradient: {self.models.named(leaves)}"
            )
            numbers = {"parameters": len(leaves), "steps": steps}
            slots = self.probe.ledgers.slots_of(optimizer, leaves_of(optimizer))
            self._seen[site] = Sighting(site, message, numbers, 0), slots

    def sightings(self) -> Iterator[Sighting]:
        is_open = bool(self._fed) and bool(self.probe.budget.reason or not self.probe.finished)
        for site, (seen, slots) in list(self._seen.items()):
            is_gone = site not in self._several and self._first[site]() is None  # its steps are reported instead
            if not is_gone and not any(slot.had_gradient for slot in slots):  # by an unmeasured step
                advice = _TO_ITS_END if is_open else ""
                yield Sighting(seen.site, seen.message, seen.numbers, 0, advice)
