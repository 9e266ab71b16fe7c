"""The inputs of losses: probabilities instead of logits, or logits instead of probabilities."""

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
"""The tolerance for sums of half-precision probabilities."""


class Inputs(Observer):
    """Inputs are `outside` of [0, 1], or they are inside; of these, rows that do not add up to one are `odd`.

    Those that have values above zero are `above`; rows whose exponentials add up to one are `logarithms`; targets that
    have values below zero, and should not, are `below`.
    """

    functions: tuple[str, ...] = ()

    @classmethod
    def tap(cls, hooks: Hooks, probe: Probe) -> None:
        for name in cls.functions:
            hooks.listen(torch.nn.functional, name, _Hook(probe, cls, name))

    @property
    def is_done(self) -> bool:
        return self.counts["calls"] >= _CALLS

    @contained
    def look(self, function: str, given: Any, target: Any) -> None:
        """The flagged statement computes a loss."""
        if self.is_done or not isinstance(given, torch.Tensor) or not given.numel():
            return
        self.counts["calls"] += 1
        self.counts["binary"] += function == "binary_cross_entropy"
        try:
            low, high, off, logarithms_off = _figures(given)
            lowest = float(target.detach().min()) if isinstance(target, torch.Tensor) and target.numel() else 0.0
        except RuntimeError:  # inside a transform of torch.func tensors have no readable value
            return
        if not off < float("inf"):
            return
        is_outside = low < -_ROUNDING or high > 1 + _ROUNDING
        self.counts["outside" if is_outside else "odd" if off > _SUM else "probable"] += 1
        self.counts["above"] += high > _ROUNDING
        self.counts["logarithms"] += logarithms_off < _SUM
        self.counts["below"] += lowest < -_ROUNDING
        self.counts["low"], self.counts["high"] = min(self.counts["low"], low), max(self.counts["high"], high)


class CrossEntropyInputs(Inputs):
    """Inputs of cross-entropy, in which class probabilities would add up to one."""

    functions = ("cross_entropy",)


class LogitsInputs(Inputs):
    """Inputs of binary cross-entropy with logits."""

    functions = ("binary_cross_entropy_with_logits",)


class ActivatedInputs(Inputs):
    """Inputs of losses that expect probabilities or log-probabilities."""

    functions = ("nll_loss", "binary_cross_entropy")


class DivergenceInputs(Inputs):
    """Inputs of the Kullback-Leibler divergence."""

    functions = ("kl_div",)


def _figures(given: torch.Tensor) -> tuple[float, ...]:
    """The smallest and the largest value, how far sums over classes are from one, and those of the exponentials."""
    with torch.no_grad():
        values = given.detach().float()
        classes = min(1, values.dim() - 1)
        off = (values.sum(classes) - 1).abs().max()
        logarithms_off = values.logsumexp(classes).abs().max()
        return tuple(torch.stack([values.min(), values.max(), off, logarithms_off]).tolist())


class _Hook:
    """Wraps a loss function: passes its input to the observers whose statement calls it."""

    def __init__(self, probe: Probe, kind: type[Inputs], name: str) -> None:
        self._probe = probe
        self._kind = kind
        self._name = name

    def __call__(self, original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        for observer in self._probe.asking(self._kind):
            target = args[1] if len(args) > 1 else kwargs.get("target")
            target = None if kwargs.get("log_target") else target
            observer.look(self._name, args[0] if args else kwargs.get("input"), target)
        return original(*args, **kwargs)
