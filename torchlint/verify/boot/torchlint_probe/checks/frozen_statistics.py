"""A frozen part of a model runs in training mode, so its statistics move or its dropout is active.

The check looks at parts of a model in which no parameter requires a gradient and none has changed. It reports a problem
if the running statistics of batch normalization in such a part moved in each of ten steps, or if its dropout was
active, while an optimizer trains something else. The result is inconclusive, because some methods adapt the statistics
of a frozen network on purpose. The reported line is the last `train()` of a model that contains the part, or the call
of the frozen model.

Source: `torch.nn.Module.train` in PyTorch's documentation; "Finetuning Torchvision Models" in its tutorials.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import Any

from torch import nn

from torchlint_probe.checks._frozen import Weights, drops, statistics
from torchlint_probe.checks._mode_changes import ModeChanges
from torchlint_probe.checks._names import leaves_of
from torchlint_probe.checks.check import Sighting

_STEPS = 10
_PARTS = 200
_ADVICE = "call `eval()` on the frozen part after each `train()`, unless its statistics should follow the new data"


class _Part:
    """A frozen part: its statistics and parameters, the steps at which it was active, and the reported line."""

    def __init__(self, part: nn.Module) -> None:
        self.weights = Weights(part)
        self.statistics = statistics(part)
        self.moved = self.dropped = 0
        self.place = 0


class FrozenStatistics(ModeChanges):
    """Reads the statistics and modes of frozen parts."""

    name = "frozen-statistics"
    code = "TW216"

    def __init__(self, probe: Any) -> None:
        super().__init__(probe)
        self._trained_at: weakref.WeakKeyDictionary[nn.Module, int] = weakref.WeakKeyDictionary()
        self._rested: weakref.WeakSet[nn.Module] = weakref.WeakSet()
        """The modules that the program has put into eval mode: another check follows them."""
        self._parts: weakref.WeakKeyDictionary[nn.Module, _Part] = weakref.WeakKeyDictionary()
        self._called: weakref.WeakKeyDictionary[nn.Module, int] = weakref.WeakKeyDictionary()
        """The outermost modules that ran since the last step, with their sites."""
        self._seen: dict[int, Sighting] = {}

    def changed(self, module: nn.Module, training: bool) -> None:
        if training:
            self._trained_at[module] = self.probe.sites.here()
        else:
            self._rested.add(module)

    def called(self, module: nn.Module, args: Any, output: Any) -> None:
        if module.training and module not in self._called:
            self._called[module] = self.probe.sites.here()

    def after_step(self, optimizer: Any) -> None:
        called = list(self._called.items())
        self._called.clear()
        if not any(leaf.requires_grad for leaf in leaves_of(optimizer)):
            return
        for model, site in called:
            for part in _frozen_parts(model):
                self._look(model, part, site)

    def _look(self, model: nn.Module, part: nn.Module, site: int) -> None:
        state = self._parts.get(part)
        if state is None:
            if len(self._parts) < _PARTS:
                self._parts[part] = _Part(part)
            return
        now = statistics(part)
        if not state.weights.are_alike(part):
            self._restart(part, state)
            return
        state.moved += now != state.statistics
        state.dropped += drops(part)
        state.statistics = now
        steps = max(state.moved, state.dropped)
        if steps >= _STEPS and not any(item in self._rested for item in part.modules()):
            if steps % _STEPS == 0 and not state.weights.are_equal(part):
                self._restart(part, state)
                return
            how = "its statistics moved" if state.moved >= _STEPS else "its dropout was active"
            state.place = place = self._trained_at.get(model, 0) or site
            message = f"the frozen part {self.models.name(part)} was in training mode at {steps:,} steps: {how}"
            self._seen[place] = Sighting(place, message, {"steps": steps}, -1, _ADVICE)

    def _restart(self, part: nn.Module, state: _Part) -> None:
        """The part is trained in turn, or follows another network."""
        self._seen.pop(state.place, None)
        self._parts[part] = _Part(part)

    def sightings(self) -> Iterator[Sighting]:
        yield from list(self._seen.values())


def _frozen_parts(model: nn.Module) -> Iterator[nn.Module]:
    """The largest parts of a model with parameters, none of which requires a gradient."""
    is_trained = {leaf.requires_grad for leaf in model.parameters()}
    if is_trained == {False}:
        yield model
    if len(is_trained) < 2:
        return  # nothing is frozen, or everything is
    for part in model.children():
        yield from _frozen_parts(part)
