"""A schedule brings the learning rate to almost zero at the start of training, so the rest of it changes nothing.

At each step, the check compares the learning rates of the optimizer's groups with their largest values so far. It
reports a problem if torchlint stopped the program after its first steps, and the rate was at most a thousandth of its
largest value in at least the last five steps. A schedule that counts epochs and moves with every batch looks like this.
Schedules that end at zero reach it only at the end of a run, and warm-up schedules start there. If the program ran to
its end, the same must hold for the last third of the steps, at least twelve; the result is then inconclusive. The
reported line is the one that steps the schedule.

The result is also inconclusive if a `CosineAnnealingLR` of fewer than 20 steps went on for at least three times its
length: after its end, the rate rises and falls again.

Source: "How to adjust learning rate" in PyTorch's documentation of `torch.optim`: most schedules count epochs.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from torch.optim import lr_scheduler

from torchlint_probe.checks.check import Check, Sighting, Telling
from torchlint_probe.schedules import STEPPING

if TYPE_CHECKING:
    from torchlint_probe.hooks import Hooks
    from torchlint_probe.probe import Probe

_RATIO = 1.001e-3  # a thousandth, with room for rounding
_LAST = 5
_LAST_OF_ALL = 12
_SHARE = 3
_SHORT = 20
_OVER = 3
_MORE = "check whether the schedule should step with every batch"


class _Rate:
    """The learning rate of one group: its largest value, its last one, and the last steps at which it was tiny."""

    def __init__(self) -> None:
        self.largest = self.last = 0.0
        self.tiny = 0

    def read(self, rate: float) -> None:
        self.largest, self.last = max(self.largest, rate), rate
        self.tiny = self.tiny + 1 if rate < _RATIO * self.largest else 0


class _Rates:
    """The rates of an optimizer's groups, its steps, and the site that moves its schedule."""

    def __init__(self) -> None:
        self.groups: list[_Rate] = []
        self.steps = 0
        self.moved = 0
        self.moves = 0
        self.length = self.beyond = 0
        """The length of a schedule that rises after its end, and how many moves it has made."""

    def read(self, groups: list[Any]) -> None:
        self.steps += 1
        self.groups += [_Rate() for _ in groups[len(self.groups) :]]
        for rate, group in zip(self.groups, groups, strict=False):
            rate.read(float(group.get("lr", 1.0)))


class VanishedLearningRate(Check):
    """Reads the learning rates of groups."""

    name = "vanished-learning-rate"
    code = "TW214"

    def __init__(self, probe: Any) -> None:
        super().__init__(probe)
        self._all: list[_Rates] = []
        self._by_optimizer: weakref.WeakKeyDictionary[Any, _Rates] = weakref.WeakKeyDictionary()

    @classmethod
    def tap(cls, hooks: Hooks, probe: Probe) -> None:
        for kind in STEPPING:
            hooks.replace(kind, "step", Telling(probe, cls, "moved"))

    def moved(self, schedule: Any) -> None:
        """The program has stepped a schedule, or made it."""
        rates = self._by_optimizer.get(getattr(schedule, "optimizer", None))
        if rates is not None:
            rates.moves += 1
            rates.moved = rates.moved or self.probe.sites.here()
            if isinstance(schedule, lr_scheduler.CosineAnnealingLR) and schedule.T_max < _SHORT:
                rates.length, rates.beyond = int(schedule.T_max), int(schedule.last_epoch)

    def before_step(self, optimizer: Any) -> None:
        rates = self._by_optimizer.get(optimizer)
        if rates is None:
            rates = self._by_optimizer[optimizer] = _Rates()
            self._all.append(rates)
        rates.read(optimizer.param_groups)

    def sightings(self) -> Iterator[Sighting]:
        is_stopped = bool(self.probe.budget.reason) or not self.probe.finished
        for rates in list(self._all):
            fewest = _LAST if is_stopped else max(_LAST_OF_ALL, rates.steps // _SHARE)
            gone = [rate for rate in rates.groups if rate.tiny >= fewest and rate.last > 0]
            if not gone or not rates.moved or len(gone) < len(rates.groups):
                yield from self._risen(rates)
                continue
            rate = max(gone, key=lambda one: one.last)
            message = (
                f"the learning rate fell from {rate.largest:.2g} to {rate.last:.2g} in {rates.steps:,} steps, in which "
                f"the schedule stepped {rates.moves:,} times: the last {rate.tiny:,} steps barely trained"
            )
            numbers = {"largest": rate.largest, "last": rate.last, "steps": rates.steps}
            yield Sighting(rates.moved, message, numbers, rates.steps - rate.tiny, "" if is_stopped else _MORE)

    def _risen(self, rates: _Rates) -> Iterator[Sighting]:
        """A schedule that has passed its end several times, and rises again."""
        if rates.length and rates.beyond >= _OVER * rates.length:
            message = (
                f"the schedule ends after {rates.length:,} steps but took {rates.beyond:,}: after its end, the "
                "learning rate rises and falls again"
            )
            advice = "" if self.is_asked("schedule-in-wrong-unit") else _MORE
            yield Sighting(rates.moved, message, {"length": rates.length, "moves": rates.beyond}, rates.length, advice)
