"""A backward fails because an optimizer step, or something unknown, changed a tensor that autograd had saved.

The check runs when PyTorch refuses a backward pass because a tensor was modified in place. It reports a problem at the
statement or optimizer step that changed the tensor. First the check compares the saved tensor with the parameters of
each optimizer. If it is one of them, the last step of that optimizer changed it. Otherwise the check examines the
statements that change tensors in place, one by one. If none of them changed the tensor, the check reports the backward
pass itself.

Source: "In-place correctness checks" in PyTorch's notes on autograd mechanics.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import Any

import torch

from torchlint_probe.checks.check import Check, Sighting
from torchlint_probe.inplace import VERSION_ERROR, is_saved


class InplaceOnSavedTensor(Check):
    """Remembers where optimizers have stepped, until a backward fails."""

    name = "inplace-on-saved-tensor"
    code = "TL301"

    def __init__(self, probe: Any) -> None:
        super().__init__(probe)
        self._steps: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self._seen: dict[int, Sighting] = {}

    def before_step(self, optimizer: Any) -> None:
        self._steps[optimizer] = self.probe.sites.here()

    def backward_failed(self, roots: list[torch.Tensor], error: Exception, site: int) -> None:
        if VERSION_ERROR not in str(error):
            return
        message = str(error).split(". Hint:")[0]
        for optimizer, at in self._steps.items():
            if any(is_saved(leaf, roots) for group in optimizer.param_groups for leaf in group["params"]):
                said = f"the step changes parameters whose old values a later backward needs. PyTorch raised: {message}"
                self._seen.setdefault(at, Sighting(at, said, {"errors": 0}, self.probe.steps))
                return
        self._seen.setdefault(site, Sighting(site, f"the backward fails: {message}", {}, self.probe.steps))

    def sightings(self) -> Iterator[Sighting]:
        explained = any(change.matched for change in self.probe.changes)
        for seen in list(self._seen.values()):
            if "errors" in seen.numbers or not explained:
                yield seen
