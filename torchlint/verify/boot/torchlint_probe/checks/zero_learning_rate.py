"""The learning rate is zero at every step, so the parameters of its group are not trained.

At each step, the check reads the learning rates of the optimizer's groups. It reports a problem if one was zero in at
least the last ten steps, although parameters of the group had gradients. A warm-up schedule leaves zero after its first
step, and a schedule that ends at zero ends the training. The reported line is the one that made the schedule that
sets the rate, or otherwise the optimizer.

It also reports a problem if the rates of all groups were zero in at least the first five steps, and a schedule then
raised one of them: a warm-up that counts batches but moves once per epoch looks like this. No other optimizer may step
meanwhile. The reported line is then the one that steps the schedule.

Source: `torch.optim.lr_scheduler` in PyTorch's documentation.
"""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from torchlint_probe.checks.check import Check, Sighting, Telling
from torchlint_probe.schedules import STEPPING

if TYPE_CHECKING:
    from torchlint_probe.hooks import Hooks
    from torchlint_probe.probe import Probe

_STEPS = 10
_FIRST = 5


class _Groups:
    def __init__(self, site: int, before: int) -> None:
        self.site = site
        self.steps = 0
        self.before = before
        """The number of earlier steps of all optimizers."""
        self.row: Counter[int] = Counter()
        """By group, the number of last steps at which its learning rate was zero."""
        self.schedule = 0
        """The site that made the schedule which has set a rate to zero."""
        self.first = self.moved = 0
        """The number of first steps at which all rates were zero, and the site of the move that raised one of them."""

    @property
    def at_rest(self) -> list[int]:
        """The groups that are not trained any more."""
        return [number for number, count in self.row.items() if count >= _STEPS]


class ZeroLearningRate(Check):
    """Reads the learning rates of groups."""

    name = "zero-learning-rate"
    code = "TW204"

    def __init__(self, probe: Any) -> None:
        super().__init__(probe)
        self._steps = 0
        self._all: list[_Groups] = []
        self._by_optimizer: weakref.WeakKeyDictionary[Any, _Groups] = weakref.WeakKeyDictionary()
        self._scheduled: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        """By optimizer, the site that made its first schedule."""

    @classmethod
    def tap(cls, hooks: Hooks, probe: Probe) -> None:
        for kind in STEPPING:
            hooks.replace(kind, "step", Telling(probe, cls, "moved"))

    def before_step(self, optimizer: Any) -> None:
        groups = self._by_optimizer.get(optimizer)
        if groups is None:
            groups = self._by_optimizer[optimizer] = _Groups(self.probe.made_at(optimizer), self._steps)
            self._all.append(groups)
        groups.steps += 1
        self._steps += 1
        for number, group in enumerate(optimizer.param_groups):
            rate = group.get("lr", 1.0)
            is_zero = float(rate) == 0 and any(leaf.grad is not None for leaf in group["params"])
            groups.row[number] = groups.row[number] + 1 if is_zero else 0
            if is_zero and group.get("initial_lr"):
                groups.schedule = self._scheduled.get(optimizer, 0)
        if groups.first == groups.steps - 1 and all(
            groups.row[number] for number in range(len(optimizer.param_groups))
        ):
            groups.first = groups.steps

    def moved(self, schedule: Any) -> None:
        """The program has stepped a schedule, or made it."""
        optimizer = getattr(schedule, "optimizer", None)
        if optimizer is not None and optimizer not in self._scheduled:
            self._scheduled[optimizer] = self.probe.sites.here()
        groups = self._by_optimizer.get(optimizer)
        if groups is None or self._steps - groups.before > groups.steps:
            return
        if not groups.moved and groups.first == groups.steps:
            if any(float(group.get("lr", 1.0)) for group in optimizer.param_groups):
                groups.moved = self.probe.sites.here()

    def sightings(self) -> Iterator[Sighting]:
        for groups in list(self._all):
            if groups.moved and groups.first >= _FIRST:
                message = (
                    f"the learning rate was exactly 0 at the first {groups.first:,} steps, until the schedule moved: "
                    "they changed nothing"
                )
                yield Sighting(groups.moved, message, {"zero": groups.first}, 0)
            elif groups.at_rest:
                numbers, row = ", ".join(map(str, groups.at_rest)), max(groups.row.values())
                message = f"the learning rate of group {numbers} is zero at the last {row:,} of {groups.steps:,} steps"
                message += ": this schedule sets it" if groups.schedule else ""
                numbers_of = {"steps": groups.steps, "zero": row}
                yield Sighting(groups.schedule or groups.site, message, numbers_of, groups.steps - row)
