"""The program seeds the random number generator with the same seed at every step, so each step draws the same numbers.

For each line that calls `torch.manual_seed`, the check records the seed, the step, and other uses of the generator. It
reports a problem if the seed was the same in six steps in a row, and dropout or random functions outside the seeding
call drew numbers in each of them. The same applies to a line that draws from one `torch.Generator` and gets the same
values in six steps in a row, with gradients on. Programs that create a new generator with the same seed at each step
are not reported, because they do it on purpose. Nothing is reported if the program restores the generator's state
afterwards (`fork_rng`, `set_rng_state`).

Source: "Reproducibility" in PyTorch's notes; `torch.Generator`, which has a state of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch.nn import functional

from torchlint_probe.checks.check import Check, Operated, Sighting

if TYPE_CHECKING:
    from torchlint_probe.hooks import Hooks
    from torchlint_probe.probe import Probe

_STEPS = 6
_FEWEST = 4
_LOOKS = 12
_DRAWING = ("rand", "randn", "randint", "randperm", "rand_like", "randn_like", "randint_like", "bernoulli", "normal")
_DROPPING = (functional.dropout, functional.dropout1d, functional.dropout2d, functional.dropout3d)


class _Line:
    """The last seed of a line, the step, the number in a row, and whether other code has drawn since."""

    def __init__(self) -> None:
        self.seed: Any = None
        self.step = -1
        self.row = 0
        self.drawn = False
        self.changes = 0
        """How often the seed differed from the one before."""


class _Values:
    """The numbers that a line drew at its last step, and the number of steps in a row at which it drew the same."""

    def __init__(self) -> None:
        self.last: torch.Tensor | None = None
        self.step = -1
        self.row = 0
        self.looks = 0
        self.generator: torch.Generator | None = None

    def add(self, result: torch.Tensor, step: int, generator: torch.Generator) -> None:
        if step == self.step or result.numel() < _FEWEST or self.looks >= _LOOKS:
            return
        self.looks += 1
        is_the_one = generator is self.generator
        self.generator = generator
        follows = is_the_one and step == self.step + 1 and self.last is not None and self.last.shape == result.shape
        is_same = follows and bool((self.last == result.detach()).all())
        self.row = self.row + 1 if is_same else max(self.row, 1) if self.row >= _STEPS else 1
        self.last, self.step = result.detach().clone(), step


class ReseededInLoop(Check):
    """Observes seeds and draws."""

    name = "reseeded-in-loop"
    code = "TL610"

    def __init__(self, probe: Any) -> None:
        super().__init__(probe)
        self._lines: dict[int, _Line] = {}
        self._last = 0
        self._restores = False
        self._values: dict[int, _Values] = {}
        """By line that draws from a generator of its own, its last values."""

    @classmethod
    def tap(cls, hooks: Hooks, probe: Probe) -> None:
        for module in (torch, torch.random):
            hooks.replace(module, "manual_seed", _Hook(probe, "seeded"))
            hooks.replace(module, "set_rng_state", _Hook(probe, "restored"))

    def seeded(self, seed: Any) -> None:
        """The program has seeded the generator."""
        site = self._last = self.probe.sites.here()
        line = self._lines.setdefault(site, _Line())
        step = self.probe.steps
        if line.step == step:
            return
        line.changes += line.step >= 0 and line.seed != seed
        follows = line.seed == seed and line.step == step - 1 and line.drawn
        line.row = line.row + 1 if follows else max(line.row, 1) if line.row >= _STEPS else 1
        line.seed, line.step, line.drawn = seed, step, False

    def restored(self, state: Any) -> None:
        """The program has restored a state."""
        self._restores = True

    def operators(self) -> Mapping[Any, Operated]:
        drawing = [getattr(torch, name) for name in _DRAWING]
        return {**dict.fromkeys(drawing, self._drew), **dict.fromkeys(_DROPPING, self._dropped)}

    def _dropped(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        line = self._lines.get(self._last)
        if line is not None and result.grad_fn is not None:
            line.drawn = True

    def _drew(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        generator = kwargs.get("generator")
        if generator is not None and isinstance(result, torch.Tensor) and torch.is_grad_enabled():
            self._values.setdefault(self.probe.sites.here(), _Values()).add(result, self.probe.steps, generator)
        line = self._lines.get(self._last)
        if line is None or line.drawn or kwargs.get("generator") is not None:
            return
        stacks = self.probe.sites.stacks
        callers, own = stacks[self._last][1:], stacks[self.probe.sites.here()]
        line.drawn = bool(callers) and own[-len(callers) :] != callers

    def acquittals(self) -> Iterator[Sighting]:
        for site, line in list(self._lines.items()):
            if site and line.changes > 1 and line.row < _STEPS:
                yield Sighting(site, f"the seed of this line changed {line.changes:,} times", {"seeds": line.changes})
            elif site and line.step >= 0 and self._restores:
                yield Sighting(site, "the program restores the state of the generator after seeding it")

    def sightings(self) -> Iterator[Sighting]:
        for site, values in list(self._values.items()):
            if site and values.row >= _STEPS:
                message = (
                    f"this line drew the same numbers at {values.row:,} steps in a row: its generator starts again"
                )
                yield Sighting(site, message, {"steps": values.row})
        for site, line in list(self._lines.items()):
            if site and line.row >= _STEPS and not self._restores:
                message = (
                    f"the generator was seeded with {line.seed} at {line.row:,} steps in a row: each draws the same"
                )
                yield Sighting(site, message, {"steps": line.row})


class _Hook:
    """Wraps functions of the global generator."""

    def __init__(self, probe: Probe, event: str) -> None:
        self._probe = probe
        self._event = event

    def __call__(self, original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        result = original(*args, **kwargs)
        value = next(iter((*args, *kwargs.values())), None)
        self._probe.checks.tell_one(ReseededInLoop, self._event, value)
        return result
