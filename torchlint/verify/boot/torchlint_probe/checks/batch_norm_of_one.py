"""Batch normalization gets one sample at a time, so it removes the differences between samples.

The check counts the samples in each call of `batch_norm` in training mode. It reports a problem if a line got a single
sample in each of at least ten calls. Some models are meant to be trained this way (pix2pix), so the check is off by
default.

Source: Ioffe and Szegedy, "Batch Normalization" (2015); Wu and He, "Group Normalization" (2018), on small batches.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from torch.nn import functional

from torchlint_probe.checks.check import Check, Operated, Sighting

_CALLS = 10


class BatchNormOfOne(Check):
    """Counts samples."""

    name = "batch-norm-of-one"
    code = "TW205"
    is_on = False

    def __init__(self, probe: Any) -> None:
        super().__init__(probe)
        self._calls: Counter[int] = Counter()
        self._single: Counter[int] = Counter()

    def operators(self) -> Mapping[Any, Operated]:
        return {functional.batch_norm: self._operated}

    def _operated(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        if kwargs.get("training", args[5] if len(args) > 5 else False):
            site = self.probe.sites.here()
            self._calls[site] += 1
            self._single[site] += result.shape[0] == 1

    def sightings(self) -> Iterator[Sighting]:
        for site, calls in list(self._calls.items()):
            if calls >= _CALLS and self._single[site] == calls:
                message = f"batch normalization got a single sample in all of {calls:,} calls"
                yield Sighting(site, message, {"calls": calls})
