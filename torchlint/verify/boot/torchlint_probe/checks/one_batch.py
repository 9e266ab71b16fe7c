"""The model does not learn a single batch that it sees again and again.

Each `DataLoader` repeats its first batch, as often as it would return batches. Nothing else in the program changes. The
check records the values on which each line calls `backward`. It reports a problem if, after at least twenty calls, the
median of the last five values is above a tenth of the median of the first three, which was above zero. A model that can
be trained overfits a single batch. If there were fewer than 200 calls and the loss still fell, the result is
inconclusive. The check runs with `--one-batch` only.

Source: "A Recipe for Training Neural Networks" (Karpathy, 2019): overfit one batch.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from statistics import median
from typing import TYPE_CHECKING, Any

import torch

from torchlint_probe.checks._updates import Updates
from torchlint_probe.checks.check import Check, Sighting

if TYPE_CHECKING:
    from torchlint_probe.hooks import Hooks
    from torchlint_probe.probe import Probe

_ENOUGH = 20
_LEARNED = 0.1
_UNKNOWN_LENGTH = 200
_MANY = 200
"""The number of backwards that is always enough."""
_FALLS = 0.98
"""A loss that fell to this share in the last third of the run is still falling."""
_LONGER = "give it more steps: more epochs, or a loader with more batches"
_SMALL, _LARGE = 1e-5, 0.1
"""Updates below and above these shares of the weights are called small and large."""


class OneBatch(Check):
    """Stores the losses, unread, and how much steps change the weights."""

    name = "one-batch"
    code = "TW401"
    is_on = False

    def __init__(self, probe: Any) -> None:
        super().__init__(probe)
        self._losses: dict[int, list[torch.Tensor]] = {}
        self._updates = Updates()
        self._ratios: list[float] = []

    @classmethod
    def tap(cls, hooks: Hooks, probe: Probe) -> None:
        hooks.replace(torch.utils.data.DataLoader, "__iter__", _Again())

    def before_backward(self, roots: list[torch.Tensor], site: int) -> None:
        if len(roots) == 1 and roots[0].numel() == 1:
            self._losses.setdefault(site, []).append(roots[0].detach().clone())

    def before_step(self, optimizer: Any) -> None:
        self._updates.before_step(optimizer)

    def after_step(self, optimizer: Any) -> None:
        self._ratios += [ratios[-1] for _, ratios in self._updates.after_step() if ratios]

    def sightings(self) -> Iterator[Sighting]:
        for site, losses in list(self._losses.items()):
            if len(losses) < _ENOUGH or not self.probe.finished:
                continue
            first, last = (median(map(float, part)) for part in (losses[:3], losses[-5:]))
            if first > 0 and not last <= _LEARNED * first:
                numbers = {"first": first, "last": last, "backwards": len(losses)}
                went = f"the loss went from {first:.4g} to {last:.4g} in {len(losses):,} backwards"
                if len(losses) < _MANY and _still_falls(losses):
                    yield Sighting(site, f"{went}, and was still falling", numbers, advice=_LONGER)
                else:
                    yield Sighting(site, f"the model does not learn one batch: {went}{self._step_size()}", numbers)

    def _step_size(self) -> str:
        if not self._ratios:
            return ""
        ratio = median(self._ratios)
        is_odd = "" if _SMALL <= ratio <= _LARGE else f", which is {'little' if ratio < _SMALL else 'much'}"
        return f"; a step changes the weights by {ratio:.2g} of their size{is_odd}"


def _still_falls(losses: list[torch.Tensor]) -> bool:
    """Whether the last sixth of the losses is below the one a third before the end."""
    part = len(losses) // 6
    before, last = median(map(float, losses[-2 * part : -part])), median(map(float, losses[-part:]))
    return last < _FALLS * before


class _Again:
    """Wraps `DataLoader.__iter__`, which repeats the first batch of each loader."""

    def __init__(self) -> None:
        self._batches: weakref.WeakKeyDictionary[Any, list[Any]] = weakref.WeakKeyDictionary()

    def __call__(self, original: Callable[..., Any], loader: Any) -> Iterator[Any]:
        batches = self._batches.get(loader)
        if batches is None:
            batches = self._batches[loader] = [batch for _, batch in zip(range(1), original(loader), strict=False)]
        try:
            count = len(loader)
        except TypeError:
            count = _UNKNOWN_LENGTH
        return (_copied(batches[0]) for _ in range(count if batches else 0))


def _copied(batch: Any) -> Any:
    """A copy of the original batch: the program may change the batch."""
    if isinstance(batch, torch.Tensor):
        return batch.clone()
    if isinstance(batch, dict):
        return type(batch)({key: _copied(item) for key, item in batch.items()})
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*map(_copied, batch))
    if isinstance(batch, (list, tuple)):
        return type(batch)(map(_copied, batch))
    return batch
