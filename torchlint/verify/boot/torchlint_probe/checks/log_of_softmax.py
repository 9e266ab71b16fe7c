"""The logarithm of a softmax or sigmoid is minus infinity, because a probability has become 0.

For each line that computes a logarithm, the check asks which operator computed its input, behind views and copies, and
whether a value is 0. It reports a problem if a value was 0, and the operator was a softmax, a sigmoid, or 1 minus one
of them. A line without a 0 so far may still be wrong. A line is correct if no such operator computed its input in three
calls.

Source: `torch.nn.functional.log_softmax` in PyTorch's documentation: the two operations apart are unstable.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch

from torchlint_probe.checks._loss_calls import CALLS, is_real, maker
from torchlint_probe.checks.check import Check, Operated, Sighting

_ACTIVATIONS = {"SoftmaxBackward0": "a softmax", "SigmoidBackward0": "a sigmoid"}
_COMPLEMENTS = ("RsubBackward", "SubBackward")
_LOGARITHMS = (torch.log, torch.log2, torch.log10, torch.Tensor.log, torch.Tensor.log2, torch.Tensor.log10)


class _Line:
    """The logarithms at one line."""

    def __init__(self) -> None:
        self.calls = self.others = 0
        self.activation = ""
        self.step = -1
        self.zeros: list[tuple[int, torch.Tensor]] = []
        """By step, the number of probabilities that were 0; it may still be on a device."""


class LogOfSoftmax(Check):
    """Counts probabilities that are 0."""

    name = "log-of-softmax"
    code = "TL503"
    is_on = False

    def __init__(self, probe: Any) -> None:
        super().__init__(probe)
        self._lines: dict[int, _Line] = {}

    def operators(self) -> Mapping[Any, Operated]:
        return dict.fromkeys(_LOGARITHMS, self._operated)

    def _operated(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        given = args[0] if args else kwargs.get("input")
        if not is_real(given) or not given.requires_grad:
            return
        line = self._lines.setdefault(self.probe.sites.here(), _Line())
        line.calls += 1
        activation = _activation(given)
        if not activation:
            line.others += 1
            return
        line.activation = activation
        line.zeros.append((self.probe.steps, (given.detach() == 0).sum()))

    def sightings(self) -> Iterator[Sighting]:
        for site, line in list(self._lines.items()):
            zeros = [(step, count) for step, found in list(line.zeros) if (count := int(found))]
            if zeros:
                total = sum(count for _, count in zeros)
                message = f"{total:,} probabilities of {line.activation} were 0 here: their logarithm is minus infinity"
                yield Sighting(site, message, {"zeros": total, "calls": line.calls}, zeros[0][0])

    def acquittals(self) -> Iterator[Sighting]:
        for site, line in list(self._lines.items()):
            if line.others == line.calls >= CALLS:
                message = f"no softmax or sigmoid made the input of the logarithm, in {line.calls:,} calls"
                yield Sighting(site, message, {"calls": line.calls})


def _activation(given: torch.Tensor) -> str:
    """The activation that made a value, as words; empty if there is none."""
    node = maker(given)
    if node is None:
        return ""
    if node.name().startswith(_COMPLEMENTS):
        inner = next((item for item, _ in node.next_functions if item is not None), None)
        return "1 minus a sigmoid" if inner is not None and inner.name() == "SigmoidBackward0" else ""
    return _ACTIVATIONS.get(node.name(), "")
