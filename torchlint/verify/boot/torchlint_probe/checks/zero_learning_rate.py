"""The learning rate is zero at every step, so the parameters of its group are not trained.

Asks at each step for the learning rates of the optimizer's groups. Yes if one was zero at the last ten steps or more,
although parameters of the group had gradients. A warm-up schedule leaves zero after its first step, and a schedule that
ends at zero ends the training.

Source: `torch.optim.lr_scheduler` in PyTorch's documentation.
"""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Iterator
from typing import Any

from torchlint_probe.checks.check import Check, Sighting

_STEPS = 10


class _Groups:
    def __init__(self, site: int) -> None:
        self.site = site
        self.steps = 0
        self.row: Counter[int] = Counter()
        """By group, the number of last steps at which its learning rate was zero."""

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
        self._all: list[_Groups] = []
        self._by_optimizer: weakref.WeakKeyDictionary[Any, _Groups] = weakref.WeakKeyDictionary()

    def before_step(self, optimizer: Any) -> None:
        groups = self._by_optimizer.get(optimizer)
        if groups is None:
            groups = self._by_optimizer[optimizer] = _Groups(self.probe.made_at(optimizer))
            self._all.append(groups)
        groups.steps += 1
        for number, group in enumerate(optimizer.param_groups):
            rate = group.get("lr", 1.0)
            is_zero = float(rate) == 0 and any(leaf.grad is not None for leaf in group["params"])
            groups.row[number] = groups.row[number] + 1 if is_zero else 0

    def sightings(self) -> Iterator[Sighting]:
        for groups in list(self._all):
            if groups.at_rest:
                numbers, row = ", ".join(map(str, groups.at_rest)), max(groups.row.values())
                message = f"the learning rate of group {numbers} is zero at the last {row:,} of {groups.steps:,} steps"
                yield Sighting(groups.site, message, {"steps": groups.steps, "zero": row}, groups.steps - row)
