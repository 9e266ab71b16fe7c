"""`train()` of the whole model puts a frozen part back into training mode, so its statistics or dropout change.

At each `train()` of a model, the check lists the parts that the program had put into eval mode separately. It reports a
problem if such a part was in training mode in three later steps, and its batch normalization statistics moved or its
dropout drew random numbers. None of its parameters may have had a gradient or changed. Call `eval()` on the part after
each `train()` of the whole model.

Source: `torch.nn.Module.train` in PyTorch's documentation: it sets the mode of all parts.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping
from typing import Any

from torch import nn
from torch.nn import functional

from torchlint_probe.checks._frozen import Weights, drops, statistics
from torchlint_probe.checks._mode_changes import ModeChanges
from torchlint_probe.checks.check import Operated, Sighting

_STEPS = 3
_DROPPING = (functional.dropout, functional.dropout1d, functional.dropout2d, functional.dropout3d)


class _Part:
    """A frozen part: the `train()` that switched it, its statistics then, and the steps at which they moved."""

    def __init__(self) -> None:
        self.site = 0
        self.weights: Weights | None = None
        self.statistics = -1
        self.steps = 0
        self.has_dropped = False
        self.runs = 0
        """Its calls without gradients so far."""
        self.rested = 0
        """The `train()` that switched it before the program put it into eval mode again,"""
        self.rests = 0
        """and the number of steps in eval mode since then."""


class FrozenPartInTrainingMode(ModeChanges):
    """Follows frozen parts."""

    name = "frozen-part-in-training-mode"
    code = "TL118"

    def __init__(self, probe: Any) -> None:
        super().__init__(probe)
        self._parts: weakref.WeakKeyDictionary[nn.Module, _Part] = weakref.WeakKeyDictionary()
        self._seen: dict[int, Sighting] = {}
        self._right: dict[int, int] = {}

    def changed(self, module: nn.Module, training: bool) -> None:
        if not training:
            if next(module.parameters(), None) is not None:
                before = self._parts.get(module)
                part = self._parts[module] = _Part()
                if before is not None and not before.steps:
                    part.rested, part.rests = before.site or before.rested, before.rests
        elif self._parts:
            self._parts.pop(module, None)
            inside = {id(part) for part in module.modules()}
            for part, state in list(self._parts.items()):
                if id(part) in inside and not state.site:
                    state.site, state.statistics = self.probe.sites.here(), statistics(part)
                    state.runs = self.probe.forwards.runs_of(part)
                    state.weights = Weights(part)

    def operators(self) -> Mapping[Any, Operated]:
        return dict.fromkeys(_DROPPING, self._dropped)

    def _dropped(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        inner = self.probe.forwards.inside.part
        for part, state in list(self._parts.items()):
            if state.site and inner is not None and inner.training and any(item is inner for item in part.modules()):
                state.has_dropped = bool(getattr(inner, "p", 0))

    def after_step(self, optimizer: Any) -> None:
        for part, state in list(self._parts.items()):
            if not state.site:
                state.rests += not part.training
                if state.rested and state.rests >= _STEPS:
                    self._right[state.rested] = state.rests
                continue
            if any(leaf.requires_grad and leaf.grad is not None for leaf in part.parameters()):
                del self._parts[part]
                continue
            now = statistics(part)
            runs, state.runs = state.runs, self.probe.forwards.runs_of(part)
            state.has_dropped |= state.runs > runs and drops(part)
            state.steps += now != state.statistics or state.has_dropped
            moved = now != state.statistics
            state.statistics, state.has_dropped = now, False
            if state.steps >= _STEPS:
                if state.steps % _STEPS == 0 and state.weights is not None and not state.weights.are_equal(part):
                    del self._parts[part]  # it follows another network
                    self._seen.pop(state.site, None)
                    continue
                how = "its statistics moved" if moved else "its dropout was active"
                message = f"`train()` undid `eval()` of the frozen part {self.models.name(part)}: {how}"
                self._seen[state.site] = Sighting(state.site, message, {"steps": state.steps})

    def acquittals(self) -> Iterator[Sighting]:
        for site, steps in list(self._right.items()):
            if site not in self._seen:
                message = f"the frozen part was put into eval mode again, and stayed there at {steps:,} steps"
                yield Sighting(site, message, {"steps": steps})

    def sightings(self) -> Iterator[Sighting]:
        yield from list(self._seen.values())
