"""A sampler that balances classes never draws the largest one, because its weight is zero.

The check reads the weights of each `WeightedRandomSampler` of a `DataLoader` whose dataset has one label for each
sample (`targets`, `labels`, or the last tensor of a `TensorDataset`). It reports a problem if all samples of the most
frequent class have a weight of exactly zero, and the other samples have at least two different weights. Weights that
are only zero or one select samples on purpose, and are not reported. The reported line is the one that created the
sampler.

Source: `torch.utils.data.WeightedRandomSampler` in PyTorch's documentation. Weights by integer division are often zero.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch.utils.data import DataLoader, WeightedRandomSampler

from torchlint_probe.checks.check import Check, Sighting, Telling

if TYPE_CHECKING:
    from torchlint_probe.hooks import Hooks
    from torchlint_probe.probe import Probe

_MOST = 1_000_000
_CLASSES = 10_000


class ClassNeverDrawn(Check):
    """Compares weights with labels."""

    name = "class-never-drawn"
    code = "TW608"

    def __init__(self, probe: Any) -> None:
        super().__init__(probe)
        self._made: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self._seen: list[Sighting] = []

    @classmethod
    def tap(cls, hooks: Hooks, probe: Probe) -> None:
        hooks.replace(WeightedRandomSampler, "__init__", Telling(probe, cls, "made"))
        hooks.replace(DataLoader, "__init__", Telling(probe, cls, "loaded"))

    def made(self, sampler: Any) -> None:
        """The program has made a sampler."""
        self._made[sampler] = self.probe.sites.here()

    def loaded(self, loader: Any) -> None:
        """The program has made a loader."""
        sampler = getattr(loader, "sampler", None)
        if not isinstance(sampler, WeightedRandomSampler) or len(sampler.weights) > _MOST:
            return
        weights, labels = sampler.weights.detach().cpu(), _labels(loader.dataset)
        if labels is None or labels.shape != weights.shape:
            return
        classes, counts = labels.unique(return_counts=True)
        largest = classes[counts.argmax()]
        is_largest = labels == largest
        if len(classes) > 1 and not weights[is_largest].any() and weights[weights > 0].unique().numel() > 1:
            number = int(is_largest.sum())
            message = f"all {number:,} samples of class {int(largest)}, the largest one, have a weight of 0"
            site = self._made.get(sampler) or self.probe.sites.here()
            self._seen.append(Sighting(site, message, {"samples": number, "of": len(labels)}))

    def sightings(self) -> Iterator[Sighting]:
        yield from list(self._seen)


def _labels(dataset: Any) -> torch.Tensor | None:
    """One whole number for each sample, if the dataset stores such labels."""
    held = [getattr(dataset, name, None) for name in ("targets", "labels", "tensors")]
    found = next((item for item in held if item is not None), None)
    if isinstance(found, tuple) and found:
        found = found[-1]
    if isinstance(found, list) and found and all(type(item) is int for item in found[:_MOST]):
        found = torch.tensor(found)
    if not isinstance(found, torch.Tensor) or found.is_floating_point() or found.dim() != 1:
        return None
    return found.detach().cpu()
