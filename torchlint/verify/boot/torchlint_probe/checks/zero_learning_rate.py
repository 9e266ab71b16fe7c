"""A learning rate is zero at every step: the parameters of its group are not trained.

Asks at each step for the learning rates of the optimizer's groups. Yes if one was zero at all of ten steps or more
although parameters of the group had gradients. A schedule that warms up leaves zero after its first step.

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
        self.zero: Counter[int] = Counter()

    @property
    def never(self) -> list[int]:
        """The groups whose learning rate was never anything but zero."""
        return [number for number, count in self.zero.items() if count == self.steps]


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
            groups.zero[number] += float(rate) == 0 and any(leaf.grad is not None for leaf in group["params"])

    def sightings(self) -> Iterator[Sighting]:
        for groups in list(self._all):
            if groups.steps >= _STEPS and groups.never:
                numbers = ", ".join(map(str, groups.never))
                message = f"the learning rate of group {numbers} is zero at all of {groups.steps:,} steps"
                yield Sighting(groups.site, message, {"steps": groups.steps}, 0)
