"""The workers of a loader return the same batches, or draw the same random numbers.

The check compares the first tensor in the first batches of a `DataLoader` with several workers. It reports a problem if
all workers returned the same values three times, in the same order, and the three values are different. Causes are an
`IterableDataset` that iterates over all of its data in each worker, and a dataset that draws NumPy numbers with one
seed. The reported line is the loop in the `__iter__` of the dataset, if the program defines it, and otherwise the line
that created the loader.

Before and after its first batches, the check also reads in each worker the states of `random`, NumPy, PyTorch and the
generators that the dataset stores. It reports a problem if a training loader's workers all drew from a generator whose
state was the same in each of them, for at least two batches. The samples then differ, but their augmentations are the
same. The check includes only datasets with indices, because workers that share a stream of data may need equal numbers
to divide it.

Source: `torch.utils.data.IterableDataset` in PyTorch's documentation, on `get_worker_info`.
"""

from __future__ import annotations

import re
import weakref
from collections.abc import Callable, Iterator
from types import CodeType
from typing import TYPE_CHECKING, Any

from torch.utils.data import DataLoader, IterableDataset, dataloader
from torch.utils.data._utils.fetch import _MapDatasetFetcher

from torchlint_probe.checks._batches import first_tensor, first_values
from torchlint_probe.checks._draws import Draws, Fetched
from torchlint_probe.checks._sources import assignments, loop_of
from torchlint_probe.checks.check import Check, Sighting, Telling
from torchlint_probe.hooks import Hook

if TYPE_CHECKING:
    from torchlint_probe.hooks import Hooks
    from torchlint_probe.probe import Probe

_ROUNDS = 3
_ASKED = "worker-seeding"
"""The rule whose findings are about the line of the loader."""
_MANY: Any = dataloader._MultiProcessingDataLoaderIter


class WorkersAlike(Check):
    """Compares the batches of workers."""

    name = "workers-alike"
    code = "TW603"

    def __init__(self, probe: Any) -> None:
        super().__init__(probe)
        self._made: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        """By loader, the site that created it,"""
        self._lines: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        """and the same by its iterators."""
        self._loops: dict[int, int] = {}
        """The same by the seed from which the workers of an iterator get theirs."""
        self._kinds: dict[int, type] = {}
        """By the site of a loader, the class of its dataset."""
        self._trained: set[int] = set()
        """The seeds of loops in which an optimizer stepped."""
        self._current = 0
        self._draws = Draws(probe.plan.folder)
        self._given: weakref.WeakKeyDictionary[Any, list[bytes]] = weakref.WeakKeyDictionary()
        self._seen: dict[int, Sighting] = {}
        self._others: dict[int, Sighting] = {}

    @classmethod
    def tap(cls, hooks: Hooks, probe: Probe) -> None:
        hooks.replace(_MANY, "_next_data", _Hook(probe))
        hooks.replace(DataLoader, "__init__", Telling(probe, cls, "made"))
        hooks.replace(DataLoader, "__iter__", _Loop(probe))
        hooks.replace(_MapDatasetFetcher, "fetch", Fetched(probe))

    def made(self, loader: Any) -> None:
        """The program has made a loader."""
        self._made[loader] = self.probe.sites.here()

    def began(self, loader: Any, iterator: Any) -> None:
        """A loop over a loader begins."""
        if iterator not in self._lines and loader.num_workers > 1:
            site = self._made.get(loader) or self.probe.sites.here()
            self._lines[iterator] = self._loops[iterator._base_seed] = site
            self._kinds[site] = type(loader.dataset)

    def after_step(self, optimizer: Any) -> None:
        if self._current:
            self._trained.add(self._current)

    def given(self, loader: Any, data: Any) -> None:
        """A loader has returned a batch."""
        workers = loader._num_workers
        self._current = loader._base_seed
        batches = self._given.setdefault(loader, [])
        if workers < 2 or len(batches) >= _ROUNDS * workers:
            return
        tensor = first_tensor(data)
        batches.append(b"" if tensor is None or tensor.device.type != "cpu" else first_values(tensor))
        if len(batches) == _ROUNDS * workers:
            rounds = [batches[start : start + workers] for start in range(0, len(batches), workers)]
            is_alike = all(len(set(one)) == 1 and one[0] for one in rounds)
            site = self._lines.get(loader) or self.probe.sites.here()
            if is_alike and len({one[0] for one in rounds}) == _ROUNDS and site:
                message = f"each batch came {workers:,} times, once from each of {workers:,} workers"
                self._seen[site] = Sighting(self._iterating(site), message, {"workers": workers}, self.probe.steps)
            elif site:
                self._others[site] = Sighting(site, f"{workers:,} workers returned different batches", {})

    def sightings(self) -> Iterator[Sighting]:
        yield from list(self._seen.values())
        for site, (stream, workers) in self._drawn().items():
            if site not in self._seen:
                message = f"{workers:,} workers draw the same numbers from {stream}: their samples get the same ones"
                yield Sighting(self._storing(site, stream), message, {"workers": workers})

    def _iterating(self, site: int) -> int:
        """The loop of the `__iter__` that should divide the data between workers; or the line of the loader."""
        kind = self._kinds.get(site, type)
        code = getattr(getattr(kind, "__iter__", None), "__code__", None)
        is_own = (
            not self.is_asked(_ASKED)
            and issubclass(kind, IterableDataset)
            and code is not None
            and self.probe.sites.file(code) >= 0
        )
        if code is None or not is_own:
            return site
        number, (first, last) = self.probe.sites.file(code), _lines_of(code)
        loop = loop_of(self.probe.sites.files[number], first, last)
        return self.probe.sites.place(number, loop) if loop else self.probe.sites.at(code)

    def _storing(self, site: int, stream: str) -> int:
        """The line at which the dataset stores the generator of a stream; that of the loader if it is not one."""
        code = getattr(getattr(self._kinds.get(site), "__init__", None), "__code__", None)
        number = -1 if code is None else self.probe.sites.file(code)
        name = re.match(r"`(\w+)` of the dataset", stream)
        if name is None or number < 0 or self.is_asked(_ASKED):
            return site
        path = self.probe.sites.files[number]
        stored = assignments(path, f"self.{name[1]}", *_lines_of(code))
        return self.probe.sites.place(number, stored[0].lineno) if len(stored) == 1 else site

    def acquittals(self) -> Iterator[Sighting]:
        drawn = self._drawn()
        yield from (seen for site, seen in list(self._others.items()) if site not in drawn)

    def _drawn(self) -> dict[int, tuple[str, int]]:
        """By the site of a training loader, the generator from which its workers draw the same numbers."""
        alike = self._draws.alike() if self._trained else {}
        return {
            site: alike[seed] for seed, site in list(self._loops.items()) if seed in alike and seed in self._trained
        }


def _lines_of(code: CodeType) -> tuple[int, int]:
    """The first and last line of a function."""
    lines = {line for _, _, line in code.co_lines() if line}
    return min(lines), max(lines)


class _Loop(Hook):
    """Wraps `DataLoader.__iter__`."""

    def __call__(self, original: Callable[..., Any], loader: Any) -> Any:
        iterator = original(loader)
        self._probe.checks.tell_one(WorkersAlike, "began", loader, iterator)
        return iterator


class _Hook(Hook):
    """Wraps the method with which an iterator with workers takes its next batch."""

    def __call__(self, original: Callable[..., Any], loader: Any) -> Any:
        data = original(loader)
        self._probe.checks.tell_one(WorkersAlike, "given", loader, data)
        return data
