"""A trained model is evaluated in training mode, so dropout and batch normalization distort its results.

The check looks at models that are called without gradients, are in training mode, and have a layer that behaves
differently in eval mode. It reports a problem if that was the case in each of at least three calls of a line, and the
same model is called with gradients elsewhere. Some programs do this on purpose (Monte Carlo dropout, samples of a
generator), so the check is off by default.

Source: "Evaluation Mode" in PyTorch's notes on autograd mechanics.
"""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Iterator
from typing import Any

import torch

from torchlint_probe.checks.check import Check, Sighting
from torchlint_probe.modes import depends_on_mode

_CALLS = 3


class EvaluationInTrainingMode(Check):
    """Reads the modes of models that are called without gradients."""

    name = "evaluation-in-training-mode"
    code = "TW206"
    is_on = False

    def __init__(self, probe: Any) -> None:
        super().__init__(probe)
        self._trained: weakref.WeakSet[torch.nn.Module] = weakref.WeakSet()
        self._wrong: Counter[int] = Counter()
        self._right: Counter[int] = Counter()

    def called(self, module: torch.nn.Module, args: Any, output: Any) -> None:
        if torch.is_grad_enabled():
            self._trained.add(module)
        elif module in self._trained:
            site = self.probe.sites.here()
            if any(part.training and depends_on_mode(part) for part in module.modules()):
                self._wrong[site] += 1
            else:
                self._right[site] += 1

    def acquittals(self) -> Iterator[Sighting]:
        for site, calls in list(self._right.items()):
            if calls >= _CALLS and site not in self._wrong:
                yield Sighting(site, f"the model was in eval mode in {calls:,} of {calls:,} calls", {"calls": calls})

    def sightings(self) -> Iterator[Sighting]:
        for site, calls in list(self._wrong.items()):
            if calls >= _CALLS and site not in self._right:
                message = (
                    f"{calls:,} calls without gradients ran a model in training mode, with dropout or batch statistics"
                )
                yield Sighting(site, message, {"calls": calls})
