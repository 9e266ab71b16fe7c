"""Parameters have gradients and the optimizer steps, but their values never change.

The check samples each optimizer's weight matrices in up to ten of its steps. It reports a problem if the sampled
elements of a matrix had a nonzero gradient but never changed in at least eight of these steps, and the learning rate of
the group is above zero. The gradient of a bias before a normalization consists of rounding errors, so such a bias is
left out. Causes are updates below the resolution of `bfloat16` or `float16` weights, or a training loop that copies old
weights back.

Source: "TrainCheck" (OSDI 2025), silent errors of weights that are not updated; "Revisiting BFloat16 Training" (Zamirai
et al., 2020), updates that round to nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torchlint_probe.checks.check import Check, Sighting
from torchlint_probe.ledger import Ledger

_STEPS = 8


class ParameterNeverMoves(Check):
    """Reads the movement that ledgers have recorded."""

    name = "parameter-never-moves"
    code = "TW202"

    def __init__(self, probe: Any) -> None:
        super().__init__(probe)
        self._seen: dict[int, Sighting] = {}

    def after_step(self, optimizer: Any) -> None:
        ledger: Ledger = self.probe.ledgers.of(optimizer)
        site = self.probe.made_at(optimizer)
        self._seen.pop(site, None)
        if ledger.movement.looks < _STEPS or not ledger.movement.unmoved:
            return
        pushed = {id(leaf) for group in optimizer.param_groups if group.get("lr", 1) for leaf in group["params"]}
        still = [leaf for slot in ledger.movement.still_slots if (leaf := slot.parameter()) is not None]
        still = [leaf for leaf in still if id(leaf) in pushed and leaf.dim() > 1]
        if still:
            message = f"{self.models.named(still)} have gradients but did not change in {ledger.movement.looks:,} steps"
            kinds = ", ".join(sorted({str(leaf.dtype).removeprefix("torch.") for leaf in still}))
            self._seen[site] = Sighting(site, f"{message} ({kinds})", {"parameters": len(still)}, 0)

    def sightings(self) -> Iterator[Sighting]:
        yield from list(self._seen.values())
