"""`train()` undoes `eval()` before the evaluation, so the evaluation loss is computed in training mode.

At each `train()`, the check asks whether `eval()` of the same model came before it, with no forward pass with gradients
in between. It reports a problem if the model has dropout or batch normalization and was then called at least three
times without gradients, and the program computed a loss without gradients after each call, before the next step or the
next pass with gradients. A `train()` at the end of an evaluation is correct, because the next passes train. Programs
that update batch normalization statistics compute no loss.

Source: "Evaluation Mode" in PyTorch's notes on autograd mechanics.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch.nn import functional

from torchlint_probe.checks._mode_changes import ModeChanges
from torchlint_probe.checks.check import Operated, Sighting
from torchlint_probe.modes import depends_on_mode

_CALLS = 3
_LOSSES = ("cross_entropy", "nll_loss", "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "kl_div")
_OTHERS = ("binary_cross_entropy", "binary_cross_entropy_with_logits")


class _Undone:
    def __init__(self, site: int) -> None:
        self.site = site
        self.calls = self.losses = 0


class UndoneEvaluationMode(ModeChanges):
    """Counts losses between `train()` and the next pass with gradients."""

    name = "undone-evaluation-mode"
    code = "TW211"

    def __init__(self, probe: Any) -> None:
        super().__init__(probe)
        self._evaluated: weakref.WeakSet[torch.nn.Module] = weakref.WeakSet()
        self._undone: weakref.WeakKeyDictionary[torch.nn.Module, _Undone] = weakref.WeakKeyDictionary()
        self._seen: dict[int, Sighting] = {}

    def changed(self, module: torch.nn.Module, training: bool) -> None:
        if not training:
            self._evaluated.add(module)
            self._undone.pop(module, None)
        elif module in self._evaluated:
            self._undone.setdefault(module, _Undone(self.probe.sites.here()))

    def called(self, module: torch.nn.Module, args: Any, output: Any) -> None:
        if torch.is_grad_enabled():
            self._evaluated.discard(module)
            self._undone.pop(module, None)
        elif self._undone and (undone := self._undone.get(module)) is not None:
            undone.calls += module.training
        elif self._undone and isinstance(output, torch.Tensor) and output.numel() == 1:
            self._computed()  # a module that returns one number for its inputs

    def after_step(self, optimizer: Any) -> None:
        if self._evaluated:
            self._evaluated.clear()
            self._undone.clear()

    def operators(self) -> Mapping[Any, Operated]:
        return {getattr(functional, name): self._operated for name in (*_LOSSES, *_OTHERS)}

    def _operated(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        if self._undone and not torch.is_grad_enabled():
            self._computed()

    def _computed(self) -> None:
        """The program has computed a loss without gradients."""
        for module, undone in list(self._undone.items()):
            if undone.calls > undone.losses:
                undone.losses += 1
            if undone.losses >= _CALLS and any(part.training and depends_on_mode(part) for part in module.modules()):
                message = f"`train()` undid `eval()`: {undone.losses:,} evaluation losses come from training mode"
                self._seen[undone.site] = Sighting(undone.site, message, {"losses": undone.losses}, self.probe.steps)

    def sightings(self) -> Iterator[Sighting]:
        yield from list(self._seen.values())
