"""The workers of a loader return the same batches, so training sees each sample once per worker.

Asks for the values of the first tensor in the first batches of a `DataLoader` with several workers. Yes if all workers
returned the same values in the same order, three times, and these differ from one time to the next. Causes are an
`IterableDataset` that iterates over all of its data in each worker, and a dataset that draws NumPy numbers with one
seed.

Source: `torch.utils.data.IterableDataset` in PyTorch's documentation, on `get_worker_info`.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from torch.utils.data import dataloader

from torchlint_probe.checks._batches import first_tensor, first_values
from torchlint_probe.checks.check import Check, Sighting
from torchlint_probe.hooks import Hook

if TYPE_CHECKING:
    from torchlint_probe.hooks import Hooks
    from torchlint_probe.probe import Probe

_ROUNDS = 3
_MANY: Any = dataloader._MultiProcessingDataLoaderIter


class WorkersAlike(Check):
    """Compares the batches of workers."""

    name = "workers-alike"
    code = "TW603"

    def __init__(self, probe: Any) -> None:
        super().__init__(probe)
        self._given: weakref.WeakKeyDictionary[Any, list[bytes]] = weakref.WeakKeyDictionary()
        self._seen: dict[int, Sighting] = {}
        self._others: dict[int, Sighting] = {}

    @classmethod
    def tap(cls, hooks: Hooks, probe: Probe) -> None:
        hooks.replace(_MANY, "_next_data", _Hook(probe))

    def given(self, loader: Any, data: Any) -> None:
        """A loader has returned a batch."""
        workers = loader._num_workers
        batches = self._given.setdefault(loader, [])
        if workers < 2 or len(batches) >= _ROUNDS * workers:
            return
        tensor = first_tensor(data)
        batches.append(b"" if tensor is None or tensor.device.type != "cpu" else first_values(tensor))
        if len(batches) == _ROUNDS * workers:
            rounds = [batches[start : start + workers] for start in range(0, len(batches), workers)]
            is_alike = all(len(set(one)) == 1 and one[0] for one in rounds)
            site = self.probe.sites.here()
            if is_alike and len({one[0] for one in rounds}) == _ROUNDS and site:
                message = f"each batch came {workers:,} times, once from each of {workers:,} workers"
                self._seen[site] = Sighting(site, message, {"workers": workers}, self.probe.steps)
            elif site:
                self._others[site] = Sighting(site, f"{workers:,} workers returned different batches", {})

    def sightings(self) -> Iterator[Sighting]:
        yield from list(self._seen.values())

    def acquittals(self) -> Iterator[Sighting]:
        yield from list(self._others.values())


class _Hook(Hook):
    """Wraps the method with which an iterator with workers takes its next batch."""

    def __call__(self, original: Callable[..., Any], loader: Any) -> Any:
        data = original(loader)
        self._probe.checks.tell_one(WorkersAlike, "given", loader, data)
        return data
