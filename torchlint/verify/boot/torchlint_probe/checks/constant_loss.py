"""The loss is exactly the same at every step, although an optimizer steps.

The check compares the values on which each line calls `backward`. It reports a problem if the value was the same in at
least ten steps in a row and is not zero, and the optimizer took these steps with a learning rate above zero. Such a
loss does not depend on the data and the weights. Causes are an `argmax`, a clamp that cuts off everything, or a model
whose units are all dead.

Source: "A Recipe for Training Neural Networks" (Karpathy, 2019): a loss that does not move is a bug in the program.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from torchlint_probe.checks.check import Check, Sighting

_STEPS = 10


class _Line:
    """The values that go backward at one line, and their steps."""

    def __init__(self) -> None:
        self.values: list[torch.Tensor] = []
        self.first = -1

    @property
    def is_constant(self) -> bool:
        return len(self.values) >= _STEPS and len({float(value) for value in self.values}) == 1


class ConstantLoss(Check):
    """Keeps the losses of the first steps, unread."""

    name = "constant-loss"
    code = "TW107"

    def __init__(self, probe: Any) -> None:
        super().__init__(probe)
        self._lines: dict[int, _Line] = {}
        self._steps = 0

    def before_backward(self, roots: list[torch.Tensor], site: int) -> None:
        line = self._lines.setdefault(site, _Line())
        if len(roots) == 1 and roots[0].numel() == 1 and line.first != self.probe.steps and len(line.values) < 40:
            line.first = self.probe.steps
            line.values.append(roots[0].detach().clone())

    def after_step(self, optimizer: Any) -> None:
        self._steps += any(group.get("lr", 1) for group in optimizer.param_groups)

    def sightings(self) -> Iterator[Sighting]:
        if not self.probe.finished or self._steps < _STEPS:
            return
        for site, line in self._lines.items():
            if line.is_constant and float(line.values[0]):
                value = float(line.values[0])
                message = f"the loss was exactly {value:.6g} at all of {len(line.values):,} steps"
                yield Sighting(site, message, {"steps": len(line.values), "loss": value}, 0)
