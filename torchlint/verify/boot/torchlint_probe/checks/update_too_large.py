"""Each step replaces the weights, because the update is as large as they are.

After each step, from the fourth on, the check measures how much the step changed the first elements of weight matrices,
relative to their size. It reports a problem if the median of at least eight steps is above a half for one matrix of at
least sixteen elements. A usual value is about a thousandth.

Source: Karpathy, "CS231n, Babysitting the learning process": the ratio of updates to weights should be near 1e-3.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from statistics import median
from typing import Any

from torchlint_probe.checks._updates import Updates
from torchlint_probe.checks.check import Check, Sighting

_FROM = 3
_STEPS = 8
_RATIO = 0.5


class UpdateTooLarge(Check):
    """Compares weights before and after steps."""

    name = "update-too-large"
    code = "TW105"

    def __init__(self, probe: Any) -> None:
        super().__init__(probe)
        self._steps: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self._updates = Updates()
        self._seen: dict[int, Sighting] = {}

    def before_step(self, optimizer: Any) -> None:
        self._steps[optimizer] = self._steps.get(optimizer, 0) + 1
        if _FROM < self._steps[optimizer] <= _FROM + 2 * _STEPS:
            self._updates.before_step(optimizer)

    def after_step(self, optimizer: Any) -> None:
        changed = self._updates.after_step()
        if not changed:
            return
        site = self.probe.made_at(optimizer)
        self._seen.pop(site, None)
        large = {leaf: median(ratios) for leaf, ratios in changed if len(ratios) >= _STEPS and median(ratios) > _RATIO}
        if large:
            ratio = max(large.values())
            message = f"steps change {self.models.named(large)} by {ratio:.2g} of their size: the steps are too large"
            self._seen[site] = Sighting(site, message, {"ratio": ratio}, _FROM)

    def sightings(self) -> Iterator[Sighting]:
        yield from list(self._seen.values())
