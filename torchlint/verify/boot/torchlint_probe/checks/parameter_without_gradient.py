"""Parameters that an optimizer holds never get a gradient: they stay what they were at the beginning.

Asks at each step which of the optimizer's parameters that require gradients have never had one. Yes if there are some
after ten steps or more, and others of the same optimizer have had theirs. Layers that nothing calls, a part that a
`detach` cuts off, and branches that are never taken look like this. So does a part that is trained later: if the
program was stopped, that is not decided.

Source: "TrainCheck" (OSDI 2025), silent errors of parameters that are not updated; `find_unused_parameters` in
PyTorch's documentation of DistributedDataParallel.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch

from torchlint_probe.checks._names import leaves_of
from torchlint_probe.checks.check import Check, Sighting
from torchlint_probe.slots import Slot

_STEPS = 10
_TO_ITS_END = "run it to its end, with --max-steps 0"


class _Held:
    """Of one optimizer: where it is made, its steps, and the parameters that never had a gradient."""

    def __init__(self, leaves: list[torch.Tensor], site: int) -> None:
        self.site = site
        self.steps = 0
        self.fed = 0
        self.unfed = [weakref.ref(leaf) for leaf in leaves if leaf.requires_grad]

    def look(self) -> None:
        self.steps += 1
        unfed = [item for item in self.unfed if (leaf := item()) is not None and leaf.grad is None]
        self.fed += len(self.unfed) - len(unfed)
        self.unfed = unfed


class ParameterWithoutGradient(Check):
    """Looks at each step at those that had no gradient yet."""

    name = "parameter-without-gradient"
    code = "TW201"

    def __init__(self, probe: Any) -> None:
        super().__init__(probe)
        self._held: weakref.WeakKeyDictionary[Any, _Held] = weakref.WeakKeyDictionary()
        self._seen: dict[int, tuple[Sighting, list[Slot]]] = {}

    def before_step(self, optimizer: Any) -> None:
        held = self._held.get(optimizer)
        if held is None:
            held = self._held[optimizer] = _Held(leaves_of(optimizer), self.probe.made_at(optimizer))
        if not held.unfed and held.fed:
            return
        held.look()
        self._seen.pop(held.site, None)
        unfed = [leaf for item in held.unfed if (leaf := item()) is not None and leaf.requires_grad]
        if held.steps >= _STEPS and held.fed and unfed:
            named = self.models.named(unfed)
            message = f"the optimizer holds {named}, which got no gradient in {held.steps:,} steps"
            numbers = {"parameters": len(unfed), "steps": held.steps}
            slots = self.probe.ledgers.slots_of(optimizer, unfed)
            self._seen[held.site] = Sighting(held.site, message, numbers, 0), slots

    def sightings(self) -> Iterator[Sighting]:
        for seen, slots in list(self._seen.values()):
            if not any(slot.had_gradient for slot in slots):  # by a step that was not looked at
                yield self._undecided(seen) if self.probe.budget.reason or not self.probe.finished else seen

    @staticmethod
    def _undecided(seen: Sighting) -> Sighting:
        """The program would have gone on: parts may be trained later."""
        message = f"{seen.message}, until the program was stopped: later ones may give some"
        return replace(seen, message=message, advice=_TO_ITS_END)
