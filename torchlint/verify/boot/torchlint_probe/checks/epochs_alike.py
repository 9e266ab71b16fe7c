"""A shuffling loader returns its samples in the same order in every epoch.

In each loop over a `DataLoader` with a `RandomSampler`, or with a `DistributedSampler` that shuffles, the check records
the indices of the first samples. It reports a problem if they were the same, in the same order, in three loops in a row
over one dataset, while one optimizer stepped in all of them. For a `DistributedSampler` two loops are enough, because
nothing called `set_epoch` in between. For a `RandomSampler`, two loops give an inconclusive result. The reported line
is the sampler, the call that seeds the generator again in each epoch, or the loop. Evaluations, and training runs that
restart with the same seed, are not reported.

Source: `torch.utils.data.distributed.DistributedSampler` in PyTorch's documentation, on `set_epoch`.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import torch
from torch.utils.data import DistributedSampler, RandomSampler, dataloader

from torchlint_probe.checks.check import Check, Sighting
from torchlint_probe.hooks import Hook

if TYPE_CHECKING:
    from torchlint_probe.hooks import Hooks
    from torchlint_probe.probe import Probe

_SAMPLES = 64
"""Maximum number of samples per loop that are compared,"""
_FEWEST = 12
"""and the minimum: the same order by chance has a probability of 1 in 479 million."""
_IN_A_ROW = 3
_LOOPS = 200
_MORE = "run it for three epochs or more"
_BASE: Any = dataloader._BaseDataLoaderIter


class _Loop:
    """One loop over a loader: its first samples, and the optimizers that stepped meanwhile."""

    def __init__(self, seeded: int) -> None:
        self.seeded = seeded
        """The site at which the generator was seeded since the loop before; 0 if it was not."""
        self.samples: list[int] = []
        self.steppers: set[int] = set()
        """The numbers of the optimizers that have stepped."""

    def follows(self, other: _Loop) -> bool:
        """Whether both loops train the same optimizer with the same samples."""
        size = min(len(self.samples), len(other.samples))
        is_alike = size >= _FEWEST and self.samples[:size] == other.samples[:size]
        return is_alike and bool(self.steppers & other.steppers)


class EpochsAlike(Check):
    """Compares the indices of samples."""

    name = "epochs-alike"
    code = "TW602"

    def __init__(self, probe: Any) -> None:
        super().__init__(probe)
        self._loops: weakref.WeakKeyDictionary[Any, tuple[Any, _Loop | None]] = weakref.WeakKeyDictionary()
        """By iterator, its sampler and its loop; None if the order should not change."""
        self._lines: dict[tuple[int, int], list[_Loop]] = {}
        self._made: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self._places: dict[tuple[int, int], int] = {}
        """By line and dataset, the site that made the distributed sampler; 0 for another sampler."""
        self._current: _Loop | None = None
        self._seeded = 0
        self._count = 0

    @classmethod
    def tap(cls, hooks: Hooks, probe: Probe) -> None:
        hooks.replace(_BASE, "_next_index", _Drawn(probe))
        hooks.replace(DistributedSampler, "__init__", _Sampler(probe))
        for module in (torch, torch.random):
            hooks.replace(module, "manual_seed", _Seeded(probe))

    def made(self, sampler: Any) -> None:
        """The program has made a distributed sampler."""
        self._made[sampler] = self.probe.sites.here()

    def seeded(self) -> None:
        """The program has seeded the global generator."""
        self._seeded = self.probe.sites.here()

    def drawn(self, loader: Any, samples: Any) -> None:
        """An iterator has requested the indices of its next batch or sample."""
        drawing, loop = self._loops.get(loader, (None, None))
        if drawing is not loader._sampler_iter:
            loop = self._begin(loader)
            self._loops[loader] = loader._sampler_iter, loop
        if loop is None:
            return
        self._current = loop
        if len(loop.samples) < _SAMPLES:
            loop.samples += samples[:_SAMPLES] if isinstance(samples, list) else [samples]

    def _begin(self, loader: Any) -> _Loop | None:
        """A loop begins; None if its order should not change."""
        sampler = getattr(loader._index_sampler, "sampler", loader._index_sampler)
        is_random = isinstance(sampler, RandomSampler) and not sampler.replacement
        is_distributed = isinstance(sampler, DistributedSampler) and sampler.shuffle
        if not (is_random or is_distributed) or self._count > _LOOPS:
            return None
        self._count += 1
        loop = _Loop(self._seeded)
        self._seeded = 0
        key = self.probe.sites.here(), id(loader._dataset)
        self._places[key] = self._made.get(sampler, 0) if is_distributed else 0
        self._lines.setdefault(key, []).append(loop)
        return loop

    def after_step(self, optimizer: Any) -> None:
        if self._current is not None:
            self._current.steppers.add(self.probe.order_of(optimizer))

    def acquittals(self) -> Iterator[Sighting]:
        for key, loops in list(self._lines.items()):
            sampler = self._places[key]
            trained = [loop for loop in list(loops) if loop.steppers and len(loop.samples) >= _FEWEST]
            if sampler and len(trained) > 1 and _longest(trained)[0] == 1:
                message = f"the samples were in a new order in each of {len(trained):,} epochs"
                yield Sighting(sampler, message, {"epochs": len(trained)})

    def sightings(self) -> Iterator[Sighting]:
        for key, loops in list(self._lines.items()):
            length, last = _longest(list(loops))
            sampler = self._places[key]
            if length < 2 or not key[0]:
                continue
            numbers = {"epochs": length}
            order = f"{length:,} epochs in a row had the same samples in the same order"
            if sampler:
                yield Sighting(sampler, f"{order}: nothing calls `set_epoch` of this sampler", numbers)
            elif last.seeded:
                message = f"{order}: the generator is seeded again before each"
                yield Sighting(last.seeded, message, numbers, -1, "" if length >= _IN_A_ROW else _MORE)
            else:
                message = f"{order}, although the loader shuffles"
                yield Sighting(key[0], message, numbers, -1, "" if length >= _IN_A_ROW else _MORE)


def _longest(loops: list[_Loop]) -> tuple[int, _Loop]:
    """The largest number of equal loops in a row, and the last of them."""
    best, length = (1, loops[0]), 1
    for before, loop in pairwise(loops):
        length = length + 1 if loop.follows(before) else 1
        best = max(best, (length, loop), key=lambda row: row[0])
    return best


class _Drawn(Hook):
    """Wraps the method with which loader iterators request the next indices."""

    def __call__(self, original: Callable[..., Any], loader: Any) -> Any:
        samples = original(loader)
        self._probe.checks.tell_one(EpochsAlike, "drawn", loader, samples)
        return samples


class _Sampler(Hook):
    """Wraps the creation of distributed samplers."""

    def __call__(self, original: Callable[..., Any], sampler: Any, *args: Any, **kwargs: Any) -> None:
        original(sampler, *args, **kwargs)
        self._probe.checks.tell_one(EpochsAlike, "made", sampler)


class _Seeded(Hook):
    """Around `manual_seed`."""

    def __call__(self, original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        result = original(*args, **kwargs)
        self._probe.checks.tell_one(EpochsAlike, "seeded")
        return result
