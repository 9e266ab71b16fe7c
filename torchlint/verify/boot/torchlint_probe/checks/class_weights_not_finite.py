"""The class weights of a loss contain infinity or NaN, so the loss and all gradients do, too.

The check reads `weight` and `pos_weight` in the first calls of each line that calls a loss. It reports a problem if
there were at least three calls, and all of them got a weight that is not finite. A class without samples gives such a
weight if the program divides by its count. The reported line is the division of finite numbers whose result has the
same shape and is not finite, if there is one. Otherwise it is the line that created the loss module, or the call.

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
_DIVISIONS = (
    torch.Tensor.div,
    torch.Tensor.__truediv__,
    torch.Tensor.__rtruediv__,
    torch.Tensor.reciprocal,
    torch.Tensor.pow,
    torch.Tensor.__pow__,
    torch.Tensor.log,
    torch.div,
    torch.reciprocal,
    torch.log,
)
_CLASSES = 10_000
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
        self._divisions: dict[tuple[int, ...], int] = {}
        """By shape, the first line before training that divided finite numbers without a finite result."""

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
        losses = (*_LOSSES, functional.binary_cross_entropy_with_logits)
        return {**dict.fromkeys(losses, self._operated), **dict.fromkeys(_DIVISIONS, self._divided)}

    def _divided(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        if self.probe.steps or not isinstance(result, torch.Tensor) or result.requires_grad:
            return
        if result.is_cpu and 1 < result.numel() <= _CLASSES and not bool(torch.isfinite(result).all()):
            if all(bool(torch.isfinite(item).all()) for item in args if isinstance(item, torch.Tensor)):
                self._divisions.setdefault(tuple(result.shape), self.probe.sites.here())

    def _operated(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        given = args[2] if len(args) > 2 else kwargs.get("weight")
        for weights in (given, kwargs.get("pos_weight")):
            if isinstance(weights, torch.Tensor):
                site = self._lines.look(lambda weights=weights: ~torch.isfinite(weights.detach()).all())
                divided = self._divisions.get(tuple(weights.shape), 0)
                self._places[site] = divided or self._made.get(weights, 0) or site

    def sightings(self) -> Iterator[Sighting]:
        for site, line in self._lines.wrong():
            message = f"a weight of the loss is infinite or NaN in {line.calls:,} of {line.calls:,} calls"
            yield Sighting(self._places[site], message, {"calls": line.calls}, 0)
