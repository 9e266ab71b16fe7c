"""The gradients of some layers are almost zero compared with other layers, at every step.

At each step, the check computes the root mean square of the gradient of each weight matrix. It reports a problem if, in
each of at least ten steps, it was below a hundred-millionth of the optimizer's largest one, and not zero. At the
precision of 32-bit numbers such a layer is not trained. Many layers of `sigmoid` or `tanh` without normalization look
like this.

Source: Glorot and Bengio, "Understanding the difficulty of training deep feedforward neural networks" (2010).
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils.weak import WeakTensorKeyDictionary

from torchlint_probe.checks._gradient_norms import GradientNorms
from torchlint_probe.checks.check import Sighting

_STEPS = 10
_SHARE = 1e-8


class _Small:
    """One optimizer: its steps, and the number of steps at which each parameter had almost no gradient."""

    def __init__(self, site: int) -> None:
        self.site = site
        self.steps = 0
        self.counts: Any = WeakTensorKeyDictionary()


class VanishingGradients(GradientNorms):
    """Compares the layers of one optimizer."""

    name = "vanishing-gradients"
    code = "TW103"

    def __init__(self, probe: Any) -> None:
        super().__init__(probe)
        self._small: weakref.WeakKeyDictionary[Any, _Small] = weakref.WeakKeyDictionary()
        self._seen: dict[int, Sighting] = {}

    def measured(self, optimizer: Any, leaves: list[torch.Tensor], norms: list[float]) -> None:
        sizes = [(leaf, norm / leaf.numel() ** 0.5) for leaf, norm in zip(leaves, norms, strict=True) if leaf.dim() > 1]
        most = max((size for _, size in sizes), default=0.0)
        small = self._small.get(optimizer) or self._small.setdefault(optimizer, _Small(self.probe.made_at(optimizer)))
        small.steps += 1
        for leaf, size in sizes:
            if 0 < size < _SHARE * most:
                small.counts[leaf] = small.counts.get(leaf, 0) + 1
        never = [leaf for leaf, count in small.counts.items() if count == small.steps]
        self._seen.pop(small.site, None)
        if never and small.steps >= _STEPS:
            message = f"{self.models.named(never)} have gradients below {_SHARE:g} of the largest, at all steps"
            self._seen[small.site] = Sighting(small.site, message, {"parameters": len(never), "steps": small.steps}, 0)

    def sightings(self) -> Iterator[Sighting]:
        yield from list(self._seen.values())
