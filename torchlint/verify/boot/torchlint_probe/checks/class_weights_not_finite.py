"""The class weights of a loss contain infinity or NaN, so the loss and all gradients do, too.

Asks each line that calls a loss with `weight` or `pos_weight` at its first calls. Yes if a weight is not finite at
every one of them, three or more. A class without samples gives such a weight where a program divides by its count. The
line is the one that made the loss, if a module has the weights, otherwise the call.

Source: `torch.nn.CrossEntropyLoss` in PyTorch's documentation, on `weight`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.nn import functional
from torch.utils.weak import WeakTensorKeyDictionary

from torchlint_probe.checks._loss_calls import LossLines
from torchlint_probe.checks.check import Check, Operated, Sighting, Telling

if TYPE_CHECKING:
    from torchlint_probe.hooks import Hooks
    from torchlint_probe.probe import Probe

_LOSSES = (functional.cross_entropy, functional.nll_loss, functional.binary_cross_entropy)
_MADE = (nn.modules.loss._WeightedLoss, nn.BCEWithLogitsLoss)


class ClassWeightsNotFinite(Check):
    """Reads the weights of losses."""

    name = "class-weights-not-finite"
    code = "TW304"

    def __init__(self, probe: Any) -> None:
        super().__init__(probe)
        self._lines = LossLines(probe)
        self._made: Any = WeakTensorKeyDictionary()
        """By weights, the site that made the loss module."""
        self._places: dict[int, int] = {}

    @classmethod
    def tap(cls, hooks: Hooks, probe: Probe) -> None:
        for kind in _MADE:
            hooks.replace(kind, "__init__", Telling(probe, cls, "made"))

    def made(self, loss: Any) -> None:
        """The program has made a loss module."""
        for weights in (getattr(loss, "weight", None), getattr(loss, "pos_weight", None)):
            if isinstance(weights, torch.Tensor):
                self._made[weights] = self.probe.sites.here()

    def operators(self) -> Mapping[Any, Operated]:
        return dict.fromkeys((*_LOSSES, functional.binary_cross_entropy_with_logits), self._operated)

    def _operated(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        given = args[2] if len(args) > 2 else kwargs.get("weight")
        for weights in (given, kwargs.get("pos_weight")):
            if isinstance(weights, torch.Tensor):
                site = self._lines.look(lambda weights=weights: ~torch.isfinite(weights.detach()).all())
                self._places[site] = self._made.get(weights, 0) or site

    def sightings(self) -> Iterator[Sighting]:
        for site, line in self._lines.wrong():
            message = f"a weight of the loss is infinite or NaN in {line.calls:,} of {line.calls:,} calls"
            yield Sighting(self._places[site], message, {"calls": line.calls}, 0)
