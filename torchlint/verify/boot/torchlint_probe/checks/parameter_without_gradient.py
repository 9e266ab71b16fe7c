"""Parameters of an optimizer never get a gradient, so they keep their initial values.

At each step, the check lists the optimizer's parameters that require gradients but have never had one. It reports a
problem if there are some after at least ten steps, and other parameters of the same optimizer have had a gradient.
Parameters that get gradients at the steps of another optimizer are left out: several optimizers may share a network.
Causes are layers that nothing calls, a `detach` that cuts off a part, and branches that never run. A part that is
trained later looks the same, so the result is inconclusive if torchlint stopped the program. The reported line is the
operator that ends the graphs of all these parameters (`argmax`, `item`, `detach`), if there is one, and otherwise the
line that created the optimizer.

Source: "TrainCheck" (OSDI 2025), silent errors of parameters that are not updated; `find_unused_parameters` in
PyTorch's documentation of DistributedDataParallel.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import torch

from torchlint_probe.checks._cuts import CUTTING, Cuts
from torchlint_probe.checks._names import leaves_of
from torchlint_probe.checks.check import Check, Operated, Sighting
from torchlint_probe.slots import Slot

_STEPS = 10
_TO_ITS_END = "run it to its end, with --max-steps 0"


class _Held:
    """One optimizer: its site, its steps, and its parameters that never had a gradient."""

    def __init__(self, leaves: list[torch.Tensor], site: int) -> None:
        self.site = site
        self.steps = 0
        self.fed = 0
        self.unfed = [weakref.ref(leaf) for leaf in leaves if leaf.requires_grad]

    def look(self) -> list[weakref.ref[torch.Tensor]]:
        """The parameters that have their first gradient."""
        self.steps += 1
        fed = [item for item in self.unfed if (leaf := item()) is not None and leaf.grad is not None]
        self.unfed = [item for item in self.unfed if (leaf := item()) is not None and leaf.grad is None]
        self.fed += len(fed)
        return fed


class ParameterWithoutGradient(Check):
    """Checks at each step the parameters that had no gradient yet."""

    name = "parameter-without-gradient"
    code = "TW201"

    def __init__(self, probe: Any) -> None:
        super().__init__(probe)
        self._held: weakref.WeakKeyDictionary[Any, _Held] = weakref.WeakKeyDictionary()
        self._seen: dict[int, tuple[Sighting, list[Slot]]] = {}
        self._cuts = Cuts(self)
        self._fed: dict[int, weakref.ref[torch.Tensor]] = {}
        """By identity, the parameters that had a gradient at a step of any optimizer."""

    def operators(self) -> Mapping[Any, Operated]:
        return dict.fromkeys(CUTTING, self._cuts.cut)

    def before_step(self, optimizer: Any) -> None:
        held = self._held.get(optimizer)
        if held is None:
            held = self._held[optimizer] = _Held(leaves_of(optimizer), self.probe.made_at(optimizer))
        if not held.unfed and held.fed:
            return
        self._fed |= {id(leaf): item for item in held.look() if (leaf := item()) is not None}
        self._seen.pop(held.site, None)
        unfed = [leaf for item in held.unfed if (leaf := item()) is not None and self._is_unfed(leaf)]
        if held.steps >= _STEPS and held.fed and unfed:
            named = self.models.named(unfed)
            message = f"in {held.steps:,} steps, the optimizer got no gradient for {named}"
            numbers = {"parameters": len(unfed), "steps": held.steps}
            slots = self.probe.ledgers.slots_of(optimizer, unfed)
            cut = self._cuts.of(unfed)
            if cut is not None:
                message += f": `{cut[0]}` ends their graphs here"
            self._seen[held.site] = Sighting(held.site if cut is None else cut[1], message, numbers, 0), slots

    def _is_unfed(self, leaf: torch.Tensor) -> bool:
        fed = self._fed.get(id(leaf))
        return leaf.requires_grad and (fed is None or fed() is not leaf)

    def sightings(self) -> Iterator[Sighting]:
        for seen, slots in list(self._seen.values()):
            if not any(slot.had_gradient for slot in slots):  # by an unmeasured step
                yield self._undecided(seen) if self.probe.budget.reason or not self.probe.finished else seen

    @staticmethod
    def _undecided(seen: Sighting) -> Sighting:
        """The program was stopped: it may train these parts later."""
        message = f"{seen.message}; the program was stopped, and later steps may give one"
        return replace(seen, message=message, advice=_TO_ITS_END)
