"""Evaluation builds graphs that no backward uses.

For each line that calls a model in eval mode with gradients on, the check asks whether a backward pass uses the graphs
of the results. It reports a problem if the line built at least three graphs, and all of them were freed without a
backward pass. If the program ran to its end, graphs that still exist count too. A single backward pass through one of
them, as in an adversarial attack, makes the line correct.

Source: "Evaluation Mode" and "No-grad Mode" in PyTorch's notes on autograd mechanics: `eval()` does not switch
gradients off.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from torchlint_probe.checks.check import Check, Sighting
from torchlint_probe.outputs import Followed
from torchlint_probe.saved import saved_bytes

_ENOUGH = 3
_CALLS = 40
_WEIGHED = 2


class _Line:
    """The calls of models at one line."""

    def __init__(self) -> None:
        self.calls = 0
        self.trained = False
        self.bytes = 0
        self.followed: list[Followed] = []

    def unused(self, ended: bool) -> int:
        return sum(not item.count and (item.is_gone or ended) for item in self.followed)

    @property
    def is_used(self) -> bool:
        return any(item.count for item in self.followed)


class EvaluationWithGrad(Check):
    """Follows the graphs of model outputs in eval mode."""

    name = "evaluation-with-grad"
    code = "TL204"

    def __init__(self, probe: Any) -> None:
        super().__init__(probe)
        self._lines: dict[int, _Line] = {}

    def called(self, module: torch.nn.Module, args: Any, output: Any) -> None:
        if not torch.is_grad_enabled() or next(module.parameters(), None) is None:
            return
        line = self._lines.setdefault(self.probe.sites.here(), _Line())
        line.trained |= module.training
        if line.trained or line.calls >= _CALLS:
            return
        line.calls += 1
        followed = Followed.of(output)
        if followed is not None:
            line.followed.append(followed)
            if len(line.followed) <= _WEIGHED and not self.probe.saved_hooks:
                line.bytes = max(line.bytes, saved_bytes(followed.tensors(output)))

    def sightings(self) -> Iterator[Sighting]:
        ended = self.probe.finished and not self.probe.budget.reason and not self.probe.error
        for site, line in list(self._lines.items()):
            unused = line.unused(ended)
            if line.trained or line.is_used or unused < _ENOUGH:
                continue
            message = f"a model in eval mode built {unused:,} graphs here that no backward used"
            yield Sighting(site, message, {"graphs": unused, "calls": line.calls, "bytes": line.bytes})
