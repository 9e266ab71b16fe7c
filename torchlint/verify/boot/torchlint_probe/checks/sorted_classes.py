"""Training takes its samples class by class, because the data are sorted and the loader does not shuffle.

For each call of `cross_entropy` and `nll_loss` with a graph, the check asks whether all labels are of one class. It
reports a problem if that was the case in nine in ten of at least ten calls of a line, the class changed from time to
time, and a `DataLoader` without shuffling returned the batches while an optimizer stepped. Losses whose labels
alternate, or are always the same number, are not reported. The reported line is the one that created the loader.

Source: `shuffle` of `torch.utils.data.DataLoader` in PyTorch's documentation.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import torch
from torch.nn import functional
from torch.utils.data import DataLoader, SequentialSampler, dataloader

from torchlint_probe.checks._loss_calls import given_to
from torchlint_probe.checks.check import Check, Operated, Sighting, Telling
from torchlint_probe.hooks import Hook

if TYPE_CHECKING:
    from torchlint_probe.hooks import Hooks
    from torchlint_probe.probe import Probe

_CALLS = 10
_MOST_CALLS = 400
_FEWEST = 4
_SHARE = 0.9
_BASE: Any = dataloader._BaseDataLoaderIter


class _Calls:
    """The calls of one line: the lowest and the highest class of each batch, and the loaders of the batches."""

    def __init__(self) -> None:
        self.ranges: list[torch.Tensor] = []
        self.loaders: set[int] = set()

    @property
    def is_sorted(self) -> bool:
        """Whether nearly all batches are of one class, which seldom changes. This waits for the device."""
        ranges = torch.stack([item.cpu() for item in self.ranges]).tolist()
        single = [low for low, high in ranges if 0 <= low == high]
        changes = sum(one != other for one, other in pairwise(single))
        is_single = len(single) >= max(_CALLS, _SHARE * len(ranges))
        return is_single and len(set(single)) > 1 and changes * 3 <= len(single)


class SortedClasses(Check):
    """Reads the range of the labels of each batch."""

    name = "sorted-classes"
    code = "TL637"

    def __init__(self, probe: Any) -> None:
        super().__init__(probe)
        self._made: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        """By sampler, the site that created its loader."""
        self._lines: dict[int, _Calls] = {}
        self._current = 0
        """The site of the loader that has returned the last batch; 0 if it shuffles."""

    @classmethod
    def tap(cls, hooks: Hooks, probe: Probe) -> None:
        hooks.replace(DataLoader, "__init__", Telling(probe, cls, "made"))
        hooks.replace(_BASE, "__next__", _Next(probe))

    def made(self, loader: Any) -> None:
        """The program has made a loader."""
        self._made[loader._index_sampler] = self.probe.sites.here()

    def given(self, iterator: Any) -> None:
        """A loader returns a batch."""
        sampler = iterator._index_sampler
        is_in_order = isinstance(getattr(sampler, "sampler", sampler), SequentialSampler)
        self._current = self._made.get(sampler, 0) if is_in_order else 0

    def operators(self) -> Mapping[Any, Operated]:
        return dict.fromkeys((functional.cross_entropy, functional.nll_loss), self._operated)

    def _operated(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        given, target = given_to(args, kwargs)
        if not isinstance(given, torch.Tensor) or not given.requires_grad or not isinstance(target, torch.Tensor):
            return
        if target.is_floating_point() or target.dim() != 1 or target.numel() < _FEWEST:
            return
        calls = self._lines.setdefault(self.probe.sites.here(), _Calls())
        if len(calls.ranges) < _MOST_CALLS:
            calls.ranges.append(torch.stack(torch.aminmax(target.detach())))
            calls.loaders.add(self._current)

    def sightings(self) -> Iterator[Sighting]:
        for calls in list(self._lines.values()):
            site = next(iter(calls.loaders), 0)
            if site and len(calls.loaders) == 1 and len(calls.ranges) >= _CALLS and calls.is_sorted:
                number = len(calls.ranges)
                message = (
                    f"nearly all of {number:,} batches have samples of one class only: the samples are sorted, and the "
                    "loader does not shuffle"
                )
                yield Sighting(site, message, {"batches": number}, 0)


class _Next(Hook):
    """Wraps the method that returns the next batch of a loader."""

    def __call__(self, original: Callable[..., Any], iterator: Any) -> Any:
        batch = original(iterator)
        self._probe.checks.tell_one(SortedClasses, "given", iterator)
        return batch
