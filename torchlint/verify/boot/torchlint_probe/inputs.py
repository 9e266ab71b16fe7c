"""softmax-before-cross-entropy, sigmoid-before-bce-with-logits: are the inputs of a loss probabilities already?"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from torchlint_probe.contained import contained
from torchlint_probe.observer import Observer

if TYPE_CHECKING:
    from torchlint_probe.hooks import Hooks
    from torchlint_probe.probe import Probe

_CALLS = 40
_ROUNDING = 1e-3
_SUM = 1e-2
"""Probabilities of half precision add up to one no more closely."""


class Inputs(Observer):
    """Inputs are `outside` of [0, 1], or they are inside; of these, rows that do not add up to one are `odd`."""

    function = ""

    @classmethod
    def tap(cls, hooks: Hooks, probe: Probe) -> None:
        hooks.replace(torch.nn.functional, cls.function, _Hook(probe, cls))

    @contained
    def look(self, given: Any) -> None:
        """The flagged statement computes a loss of this input."""
        if self.counts["calls"] >= _CALLS or not isinstance(given, torch.Tensor) or not given.numel():
            return
        self.counts["calls"] += 1
        try:
            low, high, off = _figures(given)
        except RuntimeError:  # in a transform of torch.func there is no number to be had
            return
        if not off < float("inf"):
            return
        is_outside = low < -_ROUNDING or high > 1 + _ROUNDING
        self.counts["outside" if is_outside else "odd" if off > _SUM else "probable"] += 1
        self.counts["low"], self.counts["high"] = min(self.counts["low"], low), max(self.counts["high"], high)


class CrossEntropyInputs(Inputs):
    """Of cross-entropy, in which class probabilities would add up to one."""

    function = "cross_entropy"


class LogitsInputs(Inputs):
    """Of binary cross-entropy with logits."""

    function = "binary_cross_entropy_with_logits"


def _figures(given: torch.Tensor) -> tuple[float, float, float]:
    """The smallest and the largest value, and how far the sums over classes are from one."""
    with torch.no_grad():
        values = given.detach().float()
        off = (values.sum(min(1, values.dim() - 1)) - 1).abs().max()
        low, high, far = torch.stack([values.min(), values.max(), off]).tolist()
    return low, high, far


class _Hook:
    """Around a loss function: shows its input to those whose statement calls it."""

    def __init__(self, probe: Probe, kind: type[Inputs]) -> None:
        self._probe = probe
        self._kind = kind

    def __call__(self, original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        if not torch.compiler.is_compiling():
            for observer in self._probe.asking(self._kind):
                observer.look(args[0] if args else kwargs.get("input"))
        return original(*args, **kwargs)
