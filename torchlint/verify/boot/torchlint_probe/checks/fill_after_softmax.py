"""A mask writes a large negative number into probabilities, so a masked value counts most instead of nothing.

For each `masked_fill` and `where`, the check asks whether the values before the fill are probabilities: none is below
zero, and each row along one dimension sums to one. It reports a problem if the mask selects some of them and sets them
to -1,000 or less. Such a number belongs in the scores before the softmax. The check is off by default, because a second
softmax may follow.

Source: "Attention Is All You Need" (2017), section 3.2.3: masking sets the inputs of the softmax to minus infinity.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from torchlint_probe.checks.check import Check, Operated, Sighting

_LARGE = -1e3
_CALLS = 20
_ENOUGH = 3
_CLOSE = 1e-3


class FillAfterSoftmax(Check):
    """Looks at what masks replace."""

    name = "fill-after-softmax"
    code = "TL546"
    is_on = False

    def __init__(self, probe: Any) -> None:
        super().__init__(probe)
        self._calls: Counter[int] = Counter()
        self._scores: Counter[int] = Counter()
        self._seen: dict[int, Sighting] = {}

    def operators(self) -> Mapping[Any, Operated]:
        filled = dict.fromkeys((torch.Tensor.masked_fill, torch.masked_fill), self._filled)
        return {**filled, torch.where: self._chosen}

    def _filled(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        self._look(args[0], result)

    def _chosen(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        for given in args[1:]:
            if isinstance(given, torch.Tensor) and given.shape == getattr(result, "shape", None):
                self._look(given, result)

    def _look(self, before: Any, after: Any) -> None:
        site = self.probe.sites.here()
        if self._calls[site] >= _CALLS or not _are_floats(before) or not _are_floats(after) or not before.numel():
            return
        self._calls[site] += 1
        before, after = before.detach(), after.detach()
        filled = int((after <= _LARGE).sum())
        if not filled or before.shape != after.shape:
            return
        if float(before.min()) < 0:
            self._scores[site] += 1
        elif any(_sums_to_one(before, dim) for dim in range(before.dim())) and site not in self._seen:
            message = (
                f"{filled:,} of {after.numel():,} probabilities become {float(after.min()):.3g}: the values before "
                "were not negative and summed to one"
            )
            self._seen[site] = Sighting(site, message, {"filled": filled}, self.probe.steps)

    def acquittals(self) -> Iterator[Sighting]:
        for site, count in list(self._scores.items()):
            if count >= _ENOUGH and site not in self._seen:
                message = f"the values before were not probabilities in {count:,} calls: some were negative"
                yield Sighting(site, message, {"calls": count})

    def sightings(self) -> Iterator[Sighting]:
        yield from list(self._seen.values())


def _are_floats(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point()


def _sums_to_one(values: torch.Tensor, dim: int) -> bool:
    return values.shape[dim] > 1 and bool(((values.float().sum(dim) - 1).abs() < _CLOSE).all())
