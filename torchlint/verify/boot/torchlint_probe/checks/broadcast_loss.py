"""A loss compares each prediction with every target, because their different shapes are broadcast.

The check compares the two shapes in each call of `mse_loss`, `l1_loss`, `smooth_l1_loss` and `huber_loss`, and in each
difference. It reports a problem if one shape is `(N, 1)` and the other `(N,)` with N above 1, so that the result is
`(N, N)`. Only one of the two may have a graph, because the other is then a target. For losses, it also reports a
problem if both shapes start with the same batch size, one has an extra dimension, and the result has more elements than
each of them, such as `(N, 1, H, W)` and `(N, H, W)`. The mean over all pairs is smallest if every prediction is the
mean of the targets.

Source: the warning of `torch.nn.functional.mse_loss`, "Using a target size that is different to the input size".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch

from torchlint_probe.checks._loss_calls import REGRESSIONS
from torchlint_probe.checks.check import Check, Operated, Sighting

_DIFFERENCES = (torch.sub, torch.Tensor.sub, torch.Tensor.__sub__, torch.Tensor.__rsub__, torch.subtract)
_CALLS = 2
"""The minimum number of calls of a line: the last batch of an epoch alone may have another size."""


class BroadcastLoss(Check):
    """Compares shapes."""

    name = "broadcast-loss"
    code = "TW301"

    def __init__(self, probe: Any) -> None:
        super().__init__(probe)
        self._calls: dict[int, list[Any]] = {}
        self._right: dict[int, int] = {}
        """Calls of a line whose shapes are equal; counted only if a finding is about the line."""
        self._counts = self.is_asked("target-shape-broadcast")

    def operators(self) -> Mapping[Any, Operated]:
        return dict.fromkeys((*REGRESSIONS, *_DIFFERENCES), self._operated)

    def _operated(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        one, other = (*args, *kwargs.values(), None, None)[:2]
        if not isinstance(one, torch.Tensor) or not isinstance(other, torch.Tensor):
            return
        if self._counts and one.shape == other.shape and one.dim():
            site = self.probe.sites.here()
            self._right[site] = self._right.get(site, 0) + 1
        if (one.grad_fn is None) == (other.grad_fn is None) or one.dim() == other.dim():
            return
        is_loss = func in REGRESSIONS
        if _is_wrong(one, other, is_loss) or _is_wrong(other, one, is_loss):
            self._calls.setdefault(self.probe.sites.here(), []).append((tuple(one.shape), tuple(other.shape)))

    def sightings(self) -> Iterator[Sighting]:
        for site, shapes in list(self._calls.items()):
            if len(shapes) >= _CALLS:
                one, other = shapes[0]
                message = f"shapes {one} and {other} are broadcast: each prediction is compared with every target"
                yield Sighting(site, message, {"calls": len(shapes)}, 0)

    def acquittals(self) -> Iterator[Sighting]:
        for site, calls in list(self._right.items()):
            if calls > _CALLS and site not in self._calls:
                yield Sighting(site, f"both had the same shape in all of {calls:,} calls", {"calls": calls})


def is_pairwise(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether a loss of both compares each prediction with every target."""
    return _is_wrong(one, other, True) or _is_wrong(other, one, True)


def _is_wrong(longer: torch.Tensor, shorter: torch.Tensor, is_loss: bool) -> bool:
    """Whether the batch of one is broadcast along another dimension of the other."""
    if not is_loss and (longer.dim(), shorter.dim()) != (2, 1):
        return False
    if longer.dim() != shorter.dim() + 1 or not shorter.dim() or not 1 < longer.shape[0] == shorter.shape[0]:
        return False
    pairs = list(zip(longer.shape[1:], shorter.shape, strict=True))
    return pairs[0][0] == 1 and all(1 in pair or pair[0] == pair[1] for pair in pairs)
