"""scheduler-never-stepped, scheduler-before-optimizer: the positions of schedules and the steps of their optimizers."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from types import FrameType
from typing import TYPE_CHECKING, Any

from torch.optim import lr_scheduler

from torchlint_probe.claim import Claim, values_of
from torchlint_probe.observer import LineObserver

if TYPE_CHECKING:
    from torchlint_probe.probe import Probe

KINDS = tuple(
    kind
    for name in ("LRScheduler", "_LRScheduler", "ReduceLROnPlateau")
    if isinstance(kind := getattr(lr_scheduler, name, None), type)
)
STEPPING = tuple(
    kind
    for kind in vars(lr_scheduler).values()
    if isinstance(kind, type) and issubclass(kind, KINDS) and "step" in vars(kind)
)
"""The classes of schedules that have a `step` of their own."""


def schedules(value: Any) -> Iterator[Any]:
    """A schedule, or those that a wrapper holds."""
    if isinstance(value, KINDS):
        yield value
    elif isinstance(held := getattr(value, "__dict__", None), dict):
        yield from (item for item in list(held.values()) if isinstance(item, KINDS))


def position(schedule: Any) -> tuple[Any, ...]:
    """The position of a schedule: the attributes that `step` changes, in it and in its parts."""
    held = vars(schedule)
    parts = held.get("_schedulers", ())
    return held.get("last_epoch"), held.get("_step_count"), *(position(part) for part in parts)


class _Made:
    """A schedule that the flagged statement has made."""

    def __init__(self, schedule: Any) -> None:
        self.schedule = weakref.ref(schedule)
        self.optimizer = weakref.ref(schedule.optimizer)
        self.steps = 0
        self._position = position(schedule)

    def has_moved(self) -> bool:
        """Whether it has moved since the last read."""
        schedule = self.schedule()
        before = self._position
        if schedule is not None:
            self._position = position(schedule)
        return before != self._position


class NeverStepped(LineObserver):
    """The number of the optimizers' steps, and the number of moves of the schedule meanwhile."""

    def __init__(self, claim: Claim, probe: Probe) -> None:
        super().__init__(claim, probe)
        self._made: list[_Made] = []

    def after(self, frame: FrameType) -> None:
        for value in values_of(self.claim.names, frame):
            for schedule in schedules(value):
                self.counts["made"] += 1
                self._made.append(_Made(schedule))

    def after_step(self, optimizer: Any) -> None:
        for made in self._made:
            if made.optimizer() is optimizer:
                self._look(made)
                made.steps += 1

    def _look(self, made: _Made) -> None:
        """Read the schedule's position. A change by a checkpoint before the first step is not a move."""
        self.counts["moves"] += made.has_moved() and made.steps > 0

    def settle(self) -> None:
        for made in self._made:
            self._look(made)
        self.counts["steps"] = max((made.steps for made in self._made), default=0)
        self.counts["gone"] = sum(made.schedule() is None for made in self._made)


class Early(LineObserver):
    """Has the optimizer of a schedule made a step when the flagged statement moves it?"""

    def __init__(self, claim: Claim, probe: Probe) -> None:
        super().__init__(claim, probe)
        self._steps: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        """By optimizer, how many it has made,"""
        self._passed: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        """and how many backwards there had been at the last of them."""
        self._seen: weakref.WeakSet[Any] = weakref.WeakSet()
        self._own: weakref.WeakSet[Any] = weakref.WeakSet()
        """The schedules that the statement has moved, and their optimizers."""
        self._before: list[tuple[Any, tuple[Any, ...]]] = []

    def before(self, frame: FrameType) -> None:
        found = [item for value in values_of(self.claim.names, frame) for item in schedules(value)]
        self._before = [(schedule, position(schedule)) for schedule in found]

    def after(self, frame: FrameType) -> None:
        before, self._before = self._before, []
        for schedule, was in before:
            if position(schedule) != was:
                self._move(schedule, schedule.optimizer)

    def _move(self, schedule: Any, optimizer: Any) -> None:
        """The statement has moved a schedule."""
        self.counts["moves"] += 1
        steps = self._steps.get(optimizer, 0)
        if optimizer not in self._own:
            self._own.add(optimizer)
            self.counts["steps"] += steps
        if schedule not in self._seen:
            self._seen.add(schedule)
            self.counts["after" if steps else "unstepped" if _has_gradients(optimizer) else "untrained"] += 1
        if steps:
            is_between = self.probe.passed > self._passed[optimizer]
            self.counts["between" if is_between else "behind"] += 1

    def after_step(self, optimizer: Any) -> None:
        self._steps[optimizer] = self._steps.get(optimizer, 0) + 1
        self._passed[optimizer] = self.probe.passed
        self.counts["steps"] += optimizer in self._own


def _has_gradients(optimizer: Any) -> bool:
    return any(leaf.grad is not None for group in optimizer.param_groups for leaf in group["params"])
