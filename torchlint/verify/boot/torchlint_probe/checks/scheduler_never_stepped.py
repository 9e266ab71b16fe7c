"""The learning rate keeps its initial value, because the program creates a schedule and never steps it.

The check reads the position of each schedule of `torch.optim.lr_scheduler` at each step of its optimizer, and at the
end. It reports a problem if no schedule of an optimizer has stepped since it was created, the optimizer took at least
ten steps after that, and the program ran to its end. By then a schedule with one step per epoch would have stepped.

Source: "How to adjust learning rate" in PyTorch's documentation of `torch.optim`.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from torchlint_probe.checks.check import Check, Sighting, Telling
from torchlint_probe.schedules import STEPPING

if TYPE_CHECKING:
    from torchlint_probe.hooks import Hooks
    from torchlint_probe.probe import Probe

_STEPS = 10


class _Scheduled:
    """One optimizer: the site of its first schedule, and its steps since any schedule moved."""

    def __init__(self, site: int) -> None:
        self.site = site
        self.steps = 0
        self.has_moved = False


class SchedulerNeverStepped(Check):
    """Observes the creation of schedules and their steps."""

    name = "scheduler-never-stepped"
    code = "TL112"

    def __init__(self, probe: Any) -> None:
        super().__init__(probe)
        self._by_optimizer: weakref.WeakKeyDictionary[Any, _Scheduled] = weakref.WeakKeyDictionary()
        self._all: list[_Scheduled] = []

    @classmethod
    def tap(cls, hooks: Hooks, probe: Probe) -> None:
        for kind in STEPPING:
            hooks.replace(kind, "__init__", Telling(probe, cls, "made"))
            hooks.replace(kind, "step", Telling(probe, cls, "moved"))

    def made(self, schedule: Any) -> None:
        """The program has made a schedule, which made its first step itself."""
        optimizer = getattr(schedule, "optimizer", None)
        if optimizer is None:
            return
        scheduled = self._by_optimizer.get(optimizer)
        if scheduled is None:
            scheduled = self._by_optimizer[optimizer] = _Scheduled(self.probe.sites.here())
            self._all.append(scheduled)

    def moved(self, schedule: Any) -> None:
        """The program has stepped a schedule."""
        optimizer = getattr(schedule, "optimizer", None)
        if optimizer in self._by_optimizer:
            self._by_optimizer[optimizer].has_moved = True

    def after_step(self, optimizer: Any) -> None:
        scheduled = self._by_optimizer.get(optimizer)
        if scheduled is not None:
            scheduled.steps += 1

    def sightings(self) -> Iterator[Sighting]:
        if not self.probe.finished or self.probe.budget.reason or self.probe.error:
            return
        for scheduled in self._all:
            if scheduled.steps >= _STEPS and not scheduled.has_moved:
                message = f"the schedule never steps, in {scheduled.steps:,} steps of its optimizer"
                yield Sighting(scheduled.site, message, {"steps": scheduled.steps})
