"""`kl_div` gets an input that does not hold log-probabilities, or targets of the wrong kind.

For each line that calls `kl_div`, the check asks whether the input has values above zero, which no log-probability has.
It reports a problem if that was the case in each of at least three calls, and the targets are probabilities that sum to
one over the second or the last dimension. Targets that do not sum to one are not reported.

It also reports a problem if the targets are log-probabilities, whose exponentials sum to one, and `log_target` is not
set, or if they are probabilities and it is set.

Source: `torch.nn.KLDivLoss` in PyTorch's documentation: the input is expected in the log-space.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch.nn import functional

from torchlint_probe.checks._loss_calls import LossLines, adds_up_to_one, given_to, is_real
from torchlint_probe.checks.check import Check, Operated, Sighting

_ROUNDING = 1e-2


class KlDivInput(Check):
    """Compares inputs with zero."""

    name = "kl-div-input"
    code = "TL507"

    def __init__(self, probe: Any) -> None:
        super().__init__(probe)
        self._lines = LossLines(probe)
        self._targets = LossLines(probe)

    def operators(self) -> Mapping[Any, Operated]:
        return {functional.kl_div: self._operated}

    def _operated(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        given, target = given_to(args, kwargs)
        if is_real(given) and is_real(target) and (given.requires_grad or target.requires_grad):
            is_log = bool(kwargs.get("log_target"))
            self._lines.look(lambda: _is_wrong(given, target.detach().exp() if is_log else target))
            self._targets.look(lambda: _is_of_other_kind(target.detach(), is_log))

    def sightings(self) -> Iterator[Sighting]:
        for site, line in self._lines.wrong():
            message = (
                f"the input had values above zero in {line.calls:,} of {line.calls:,} calls: these are not "
                "log-probabilities"
            )
            yield Sighting(site, message, {"calls": line.calls}, 0)
        for site, line in self._targets.wrong():
            message = (
                f"the targets were of the other kind in {line.calls:,} of {line.calls:,} calls: `kl_div` expects "
                "probabilities, or log-probabilities with `log_target=True`"
            )
            yield Sighting(site, message, {"calls": line.calls}, 0)


def _is_of_other_kind(target: torch.Tensor, is_log: bool) -> torch.Tensor:
    """Whether targets that should be logarithms add up to one, or the exponentials of others do."""
    if is_log:
        return adds_up_to_one(target, -1) & (target > _ROUNDING).any()
    return adds_up_to_one(target.exp(), -1) & (target < -_ROUNDING).any()


def _is_wrong(given: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    normalized = adds_up_to_one(target, -1)
    if target.dim() > 2:
        normalized = normalized | adds_up_to_one(target, 1)
    return normalized & (given.detach() > _ROUNDING).any()
