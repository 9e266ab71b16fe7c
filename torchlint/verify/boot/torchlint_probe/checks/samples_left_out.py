"""Training never draws some of its samples, and draws other samples twice.

If the program defines the sampler of a `DataLoader` itself, the check records the indices that each pass of training
draws. It reports a problem if at least two complete passes drew as many indices as there are samples, and always left
out the same samples, at least a tenth of them. Samplers with weights leave out different samples in each pass. If the
sampler drew fewer indices, and no other loader has this dataset or a part of it, the result is inconclusive.

It also reports a problem if ten loops in a row over a loader that does not shuffle ended after the same first samples,
at most half of them, while an optimizer stepped in each: `next(iter(loader))` in the training loop always returns the
first batch.

Source: `torch.utils.data.Sampler` and `DataLoader` in PyTorch's documentation.
"""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from torch.utils.data import BatchSampler, DataLoader, IterableDataset, SequentialSampler, dataloader

from torchlint_probe.checks.check import Check, Sighting, Telling
from torchlint_probe.hooks import Hook

if TYPE_CHECKING:
    from torchlint_probe.hooks import Hooks
    from torchlint_probe.probe import Probe

_MOST = 200_000
_PASSES = 2
_STARTS = 10
_SHARE = 0.1
_DEPTH = 5
_MEANT = "check whether the sampler should draw every sample, unless another part of the program uses the others"
_BASE: Any = dataloader._BaseDataLoaderIter


class _Pass:
    """One loop over a loader: the indices it drew, whether an optimizer stepped, and whether the sampler ended."""

    def __init__(self) -> None:
        self.indices: list[int] = []
        self.trained = self.has_ended = False


class _Passes:
    """The loops over one loader."""

    def __init__(self, index_sampler: Any, dataset: Any, site: int) -> None:
        sampler = _sampler(index_sampler)
        self.site = site
        self.size = len(dataset)
        self.dataset = id(dataset)
        self.is_own = not type(sampler).__module__.startswith("torch.")
        self.is_sequential = isinstance(sampler, SequentialSampler)
        self.current = _Pass()
        self._iterator: Any = None
        self.drawn: list[set[int]] = []
        """The samples of complete passes that trained,"""
        self.counts: list[int] = []
        """and the number of indices in them."""
        self.starts = 0
        """Loops in a row that ended early, with the same samples."""
        self.first: list[int] = []

    def follow(self, iterator: Any) -> _Pass:
        """The current loop; a new one if the iterator has begun again."""
        if self._iterator is not iterator._sampler_iter:
            self._iterator = iterator._sampler_iter
            self.end()
            self.current = _Pass()
        return self.current

    def end(self) -> None:
        """The current loop is over."""
        last = self.current
        if last.trained and last.has_ended:
            self.drawn.append(set(last.indices))
            self.counts.append(len(last.indices))
        is_start = last.trained and not last.has_ended and len(last.indices) * 2 <= self.size
        self.starts = self.starts + 1 if is_start and last.indices == (self.first or last.indices) else int(is_start)
        self.first = last.indices if is_start else []

    @property
    def left_out(self) -> int:
        """The number of samples that no complete pass drew; 0 if they differ from pass to pass, or are a few."""
        if not self.is_own or len(self.drawn) < _PASSES or any(drawn != self.drawn[0] for drawn in self.drawn):
            return 0
        number = self.size - len(self.drawn[0])
        return number if number >= _SHARE * self.size else 0


class SamplesLeftOut(Check):
    """Collects the indices of samples."""

    name = "samples-left-out"
    code = "TW605"

    def __init__(self, probe: Any) -> None:
        super().__init__(probe)
        self._made: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        """By sampler, the site that created its loader."""
        self._loaders: weakref.WeakKeyDictionary[Any, _Passes | None] = weakref.WeakKeyDictionary()
        """By sampler, its loops; None if it is not examined."""
        self._all: list[_Passes] = []
        self._datasets: Counter[int] = Counter()
        """By the identity of a dataset, the number of loaders of it or of a part of it."""
        self._last: _Pass | None = None

    @classmethod
    def tap(cls, hooks: Hooks, probe: Probe) -> None:
        hooks.replace(DataLoader, "__init__", Telling(probe, cls, "made"))
        hooks.replace(_BASE, "_next_index", _Drawn(probe))

    def made(self, loader: Any) -> None:
        """The program has made a loader."""
        self._made[loader._index_sampler] = self.probe.sites.here()
        dataset: Any = loader.dataset
        for _ in range(_DEPTH):
            self._datasets[id(dataset)] += 1
            dataset = getattr(dataset, "dataset", None)
            if dataset is None:
                break

    def drawn(self, iterator: Any, samples: Any) -> None:
        """An iterator has requested the indices of its next batch or sample; None at the end."""
        sampler = iterator._index_sampler
        if sampler not in self._loaders:
            self._loaders[sampler] = self._passes(sampler, iterator._dataset)
        passes = self._loaders[sampler]
        if passes is None:
            return
        current = self._last = passes.follow(iterator)
        if samples is None:
            current.has_ended = True
        elif len(current.indices) <= _MOST:
            current.indices += samples if isinstance(samples, list) else [samples]

    def _passes(self, sampler: Any, dataset: Any) -> _Passes | None:
        if isinstance(dataset, IterableDataset) or not 1 < len(dataset) <= _MOST:
            return None
        passes = _Passes(sampler, dataset, self._made.get(sampler, 0))
        if not passes.site or not (passes.is_own or passes.is_sequential):
            return None
        self._all.append(passes)
        return passes

    def after_step(self, optimizer: Any) -> None:
        if self._last is not None:
            self._last.trained = True

    def sightings(self) -> Iterator[Sighting]:
        for passes in list(self._all):
            if passes.is_sequential and passes.starts >= _STARTS:
                first = len(passes.first)
                message = (
                    f"{passes.starts:,} loops in a row ended after the same first {first:,} of {passes.size:,} "
                    "samples: the loader does not shuffle, and each loop starts again"
                )
                yield Sighting(passes.site, message, {"samples": first, "of": passes.size})
            elif passes.left_out:
                yield from self._left_out(passes)

    def _left_out(self, passes: _Passes) -> Iterator[Sighting]:
        count, number = min(passes.counts), passes.left_out
        is_as_many = count >= (1 - _SHARE) * passes.size
        if not is_as_many and self._datasets[passes.dataset] > 1:
            return
        twice = count - len(passes.drawn[0])
        message = (
            f"{len(passes.drawn):,} passes drew the same {len(passes.drawn[0]):,} of {passes.size:,} samples"
            f"{f', {twice:,} of them again' if twice else ''}: {number:,} were never drawn"
        )
        yield Sighting(passes.site, message, {"left_out": number, "of": passes.size}, -1, "" if is_as_many else _MEANT)


def _sampler(index_sampler: Any) -> Any:
    """The sampler that chooses the indices, behind PyTorch's own `BatchSampler`."""
    return index_sampler.sampler if type(index_sampler) is BatchSampler else index_sampler


class _Drawn(Hook):
    """Wraps the method with which loader iterators request the next indices."""

    def __call__(self, original: Callable[..., Any], iterator: Any) -> Any:
        try:
            samples = original(iterator)
        except StopIteration:
            self._probe.checks.tell_one(SamplesLeftOut, "drawn", iterator, None)
            raise
        self._probe.checks.tell_one(SamplesLeftOut, "drawn", iterator, samples)
        return samples
