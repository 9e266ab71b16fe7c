"""An optimizer is created and never steps, although backward passes compute gradients for its parameters.

At every fifth step of an optimizer, the check lists the other optimizers that still exist, have never stepped, and hold
parameters with a gradient that no optimizer trains. It reports a problem if that was the case at three of these steps
for all parameters of such an optimizer, their values have not changed in between, and there were at least ten steps. If
torchlint stopped the program, the result is inconclusive, because the optimizer may step later. Gradient scalers that
skip steps, and optimizers that wait for several batches, count as stepping. The reported line is the one that created
the optimizer.

If no optimizer ever steps, the check counts backward passes instead: it reports a problem if the program ends by itself
after at least ten of them, while the parameters of an optimizer have gradients and their initial values. The reported
line is then the `if` that skips its only `step`, the `update` of a gradient scaler that never steps, or the line that
created the optimizer.

Source: "Optimizing Model Parameters" in PyTorch's tutorials: only `step` changes the parameters.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch

from torchlint_probe.checks._names import leaves_of
from torchlint_probe.checks._sources import calls_of, target_of
from torchlint_probe.checks.check import Check, Sighting
from torchlint_probe.hooks import Hook

if TYPE_CHECKING:
    from torchlint_probe.hooks import Hooks
    from torchlint_probe.probe import Probe

_EVERY = 5
_LOOKS = 3
_STEPS = 10
_VALUES = 64
_SAMPLED = 8
_OPTIMIZERS = 20
_TO_ITS_END = "run it to its end, with --max-steps 0: the optimizer may step later"


class _Idle:
    """An optimizer that has not stepped: how often its parameters had gradients, and samples of their values."""

    def __init__(self, leaves: list[torch.Tensor], step: int) -> None:
        self.looks = 0
        self.first = step
        self.has_stayed = True
        self.seen: Sighting | None = None
        self._samples = [(weakref.ref(leaf), _sample(leaf)) for leaf in leaves[:_SAMPLED]]

    def look(self, step: int) -> bool:
        """Whether all looks so far are enough for a problem."""
        self.looks += 1
        self.has_stayed &= self.stays()
        return self.has_stayed and self.looks >= _LOOKS and step - self.first >= _STEPS

    def stays(self) -> bool:
        """Whether the parameters still have their first values."""
        return all((leaf := ref()) is not None and torch.equal(_sample(leaf), old) for ref, old in self._samples)

    def moves(self) -> bool:
        """Whether a parameter has changed, although the optimizer did not step."""
        leaves = ((ref(), old) for ref, old in self._samples)
        return any(leaf is not None and not torch.equal(_sample(leaf), old) for leaf, old in leaves)


class OptimizerNeverSteps(Check):
    """Follows optimizers until their first step."""

    name = "optimizer-never-steps"
    code = "TW215"

    def __init__(self, probe: Any) -> None:
        super().__init__(probe)
        self._idle: dict[int, _Idle] = {}
        """By the number of the optimizer."""
        self._stepped: weakref.WeakSet[Any] = weakref.WeakSet()
        self._steps = 0
        self._backwards = 0
        self._waiting: list[tuple[weakref.ref[Any], _Idle]] = []
        """The optimizers at the first backward, while none has stepped,"""
        self._never: list[Sighting] = []
        """and the problem that they are so far."""
        self._update = 0
        """The site that updates a gradient scaler."""
        self._by_hand = 0
        """The site of an optimizer whose parameters change without a step."""

    @classmethod
    def tap(cls, hooks: Hooks, probe: Probe) -> None:
        hooks.replace(torch.amp.GradScaler, "step", _Scaled(probe))
        hooks.replace(torch.amp.GradScaler, "update", _Updated(probe))

    def updated(self) -> None:
        """The program has updated a gradient scaler."""
        self._update = self._update or self.probe.sites.here()

    def _place(self, made: int) -> int:
        """The line that should step an optimizer that was made at a site."""
        if self._update:
            return self._update
        stack = self.probe.sites.stacks[made]
        if not stack:
            return made
        file, line = stack[0]
        path = self.probe.sites.files[file]
        lines = calls_of(path, target_of(path, line), "step")
        return self.probe.sites.place(file, lines[0]) if len(lines) == 1 else made

    def after_backward(self, site: int) -> None:
        self._backwards += 1
        if self._backwards == 1 and not self._steps:
            for other in self.probe.made[:_OPTIMIZERS]:
                leaves = _trained(other)
                self._waiting.append((weakref.ref(other), _Idle(leaves, 0)))
        elif self._waiting and not self._by_hand:
            moving = (made() for made, idle in self._waiting if idle.moves())
            self._by_hand = next((self.probe.made_at(other) for other in moving if other is not None), 0)
        if self._waiting and self._backwards >= _STEPS and self._backwards % _EVERY == 0:
            self._never = list(self._without_any_step())

    def before_unseen_backward(self, roots: list[torch.Tensor]) -> None:
        self._backwards += 1

    def before_step(self, optimizer: Any) -> None:
        self._stepped.add(optimizer)
        self._waiting.clear()
        self._never.clear()
        self._idle.pop(self.probe.order_of(optimizer), None)
        self._steps += 1
        if self._steps % _EVERY == 0:
            for other in self.probe.made[:_OPTIMIZERS]:
                if other not in self._stepped:
                    self._look(other)

    def _look(self, other: Any) -> None:
        leaves = _trained(other)
        if not leaves or any(leaf.grad is None or self.probe.checks.holds(leaf) for leaf in leaves):
            return
        number = self.probe.order_of(other)
        idle = self._idle.get(number)
        if idle is None:
            idle = self._idle[number] = _Idle(leaves, self._steps)
        idle.seen = self._sighting(other, leaves, idle) if idle.look(self._steps) else None

    def _sighting(self, other: Any, leaves: list[torch.Tensor], idle: _Idle) -> Sighting:
        message = (
            f"this `{type(other).__name__}` never steps, although backward passes compute gradients for its "
            f"{self.models.named(leaves)}: other optimizers took {self._steps:,} steps"
        )
        return Sighting(self.probe.made_at(other), message, {"steps": self._steps}, idle.first)

    def acquittals(self) -> Iterator[Sighting]:
        if self._by_hand and not self._steps:
            yield Sighting(self._by_hand, "the program changes its parameters by hand")

    def sightings(self) -> Iterator[Sighting]:
        is_open = bool(self.probe.budget.reason) or not self.probe.finished
        for idle in list(self._idle.values()):
            if idle.seen is not None:
                yield replace(idle.seen, advice=_TO_ITS_END) if is_open else idle.seen
        if not is_open:
            yield from self._never

    def _without_any_step(self) -> Iterator[Sighting]:
        """The optimizers of a program that went backward often enough, and never stepped."""
        for made, idle in self._waiting:
            other = made()
            leaves = _trained(other) if other is not None else []
            if leaves and all(leaf.grad is not None for leaf in leaves) and idle.stays():
                message = (
                    f"this `{type(other).__name__}` never steps, although {self._backwards:,} backward passes compute "
                    f"gradients for its {self.models.named(leaves)}"
                )
                yield Sighting(self._place(self.probe.made_at(other)), message, {"backwards": self._backwards}, 0)


def _trained(optimizer: Any) -> list[torch.Tensor]:
    """The parameters of an optimizer that require gradients."""
    return [leaf for leaf in leaves_of(optimizer) if leaf.requires_grad]


def _sample(leaf: torch.Tensor) -> torch.Tensor:
    return leaf.detach().reshape(-1)[:_VALUES].clone()


class _Scaled(Hook):
    """Wraps `GradScaler.step`, which may skip the step."""

    def __call__(self, original: Callable[..., Any], scaler: Any, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        self._probe.checks.tell_one(OptimizerNeverSteps, "before_step", optimizer)
        return original(scaler, optimizer, *args, **kwargs)


class _Updated(Hook):
    """Wraps `GradScaler.update`."""

    def __call__(self, original: Callable[..., Any], scaler: Any, *args: Any, **kwargs: Any) -> Any:
        self._probe.checks.tell_one(OptimizerNeverSteps, "updated")
        return original(scaler, *args, **kwargs)
