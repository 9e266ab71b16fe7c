"""Memory grows from step to step, because the program keeps tensors of every step that nothing reads.

For each line, the check follows the tensors that it creates, if they have no graph and at least a kilobyte. It records
which ones still exist at later steps, and which ones an operator reads. It reports a problem if the tensors of at least
ten steps all exist, none of them was read after the step that follows its creation, and they outlive a pass over the
data. A pass ends when the training loader starts again or the program ends. Outputs that are collected until the end of
an epoch, replay buffers and caches are read, so they are not reported. The check follows only the first steps, in which
torchlint measures every step. Other checks report graphs that stay in memory.

If the program has no loader, the check reports a line if nearly all of its tensors from at least twenty steps exist and
take at least 100 kB per step. The result is then inconclusive, because something may read them later.

Source: "My model reports out of memory" in PyTorch's FAQ: don't hold onto tensors you don't need.
"""

from __future__ import annotations

import sys
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import torch

from torchlint_probe.checks.check import Check, Sighting
from torchlint_probe.holders import path_to, variables

if TYPE_CHECKING:
    from torchlint_probe.hooks import Hooks
    from torchlint_probe.probe import Probe

_STEPS = 10
_BYTES = 1_000
_MANY_STEPS = 20
_MANY_BYTES = 100_000
_NEARLY_ALL = 0.8
_LATER = "check whether something reads them later; if only the last steps count, keep only those"
_KEPT = 5_000


class _Kept:
    """A tensor, where and at which step it was made, and its bytes."""

    def __init__(self, tensor: torch.Tensor, site: int, step: int, size: int) -> None:
        self.tensor = weakref.ref(tensor)
        self.site = site
        self.step = step
        self.size = size


class _Line:
    """The tensors of a line that were held at the end of their step."""

    def __init__(self) -> None:
        self.steps: set[int] = set()
        self.size = 0
        self.is_right = False
        """Whether one was released, or read again."""
        self.holder = ""
        self.outlives = False
        """Whether they all existed after a pass over the data."""

    @property
    def grows(self) -> bool:
        return len(self.steps) >= _STEPS and not self.is_right


class MemoryGrowth(Check):
    """Follows the tensors that are held at the end of a step."""

    name = "memory-growth"
    code = "TW501"

    def __init__(self, probe: Any) -> None:
        super().__init__(probe)
        self._made: list[_Kept] = []
        """In this step;"""
        self._kept: dict[int, _Kept] = {}
        """and in earlier ones, by the identity of the tensor."""
        self._lines: dict[int, _Line] = {}
        self._looked_at = 0
        self._passes = _Passes()

    @classmethod
    def tap(cls, hooks: Hooks, probe: Probe) -> None:
        hooks.replace(torch.utils.data.DataLoader, "__iter__", _Hook(probe, "begun"))
        hooks.replace(torch.utils.data.dataloader._BaseDataLoaderIter, "__next__", _Hook(probe, "drawn"))

    def begun(self, loader: Any, iterator: Any) -> None:
        """A pass over a loader has begun."""
        self._passes.begin(loader, iterator)

    def drawn(self, iterator: Any, batch: Any) -> None:
        """A loader has returned a batch."""
        self._passes.drawn = weakref.ref(iterator)

    def operated(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        if self.probe.steps > self._looked_at:
            return
        if self._kept:
            self._read(args)
            self._read(kwargs.values())
        if isinstance(result, torch.Tensor) and not result.requires_grad and len(self._made) < _KEPT:
            size = result.numel() * result.element_size()
            if size >= _BYTES:
                self._made.append(_Kept(result, self.probe.sites.here(), self.probe.steps, size))

    def called(self, module: torch.nn.Module, args: Any, output: Any) -> None:
        self._read(args)

    def passed_by(self, args: Any) -> None:
        if self._kept:
            self._read(args)

    def _read(self, values: Any) -> None:
        for value in values:
            if isinstance(value, torch.Tensor):
                kept = self._kept.get(id(value))
                if kept is not None and kept.tensor() is value and self.probe.steps > kept.step + 1:
                    self._lines[kept.site].is_right = True
            elif isinstance(value, (list, tuple)):
                self._read(value)

    def after_step(self, optimizer: Any) -> None:
        if self.probe.steps > self._looked_at:
            self._made = []  # some steps were not measured
            return
        self._looked_at = self.probe.steps + 1
        self._passes.step()
        self._let_go()
        for made in self._made:
            tensor = made.tensor()
            if tensor is not None and id(tensor) not in self._kept and len(self._kept) < _KEPT:
                self._keep(made, tensor)
        self._made = []
        if self._passes.is_next:
            for line in self._lines.values():
                line.outlives |= line.grows

    def _let_go(self) -> None:
        """The tensors that were freed do not count."""
        for identity, kept in list(self._kept.items()):
            if kept.tensor() is None:
                del self._kept[identity]
                self._lines[kept.site].is_right = True

    def _keep(self, made: _Kept, tensor: torch.Tensor) -> None:
        line = self._lines.setdefault(made.site, _Line())
        self._kept[id(tensor)] = made
        line.steps.add(made.step)
        line.size += made.size
        if line.grows and not line.holder:
            starts = variables(sys._getframe(1), self.probe.sites)
            line.holder = path_to(starts, lambda found: found is tensor)

    def sightings(self) -> Iterator[Sighting]:
        has_ended = self.probe.finished and not self.probe.budget.reason and not self.probe.error
        was_seen = has_ended and self._looked_at >= self.probe.steps
        for site, line in list(self._lines.items()):
            is_known = line.outlives or was_seen
            if line.grows and (is_known or self._is_large(line)):
                size = line.size / len(line.steps)
                by = f" by `{line.holder}`" if line.holder else ""
                message = (
                    f"tensors from {len(line.steps):,} steps of this line are all held{by}, and nothing reads "
                    f"them: {size:,.0f} bytes a step"
                )
                numbers = {"steps": len(line.steps), "bytes": size}
                yield Sighting(site, message, numbers, min(line.steps), "" if is_known else _LATER)

    def _is_large(self, line: _Line) -> bool:
        """Whether a program without a loader keeps much of nearly every step."""
        steps = len(line.steps)
        is_often = steps >= _MANY_STEPS and steps >= _NEARLY_ALL * self._looked_at
        return is_often and line.size >= _MANY_BYTES * steps and self._passes.drawn is None


class _Passes:
    """The training loader: the one that most steps got their last batch from."""

    def __init__(self) -> None:
        self._loaders: weakref.WeakKeyDictionary[Any, weakref.ref[Any]] = weakref.WeakKeyDictionary()
        self._steps: Counter[weakref.ref[Any]] = Counter()
        self._begun: Counter[weakref.ref[Any]] = Counter()
        self.drawn: weakref.ref[Any] | None = None
        self.is_next = False
        """Whether the last step was the first of another pass over the training loader."""
        self._trained: Counter[weakref.ref[Any]] = Counter()

    def begin(self, loader: Any, iterator: Any) -> None:
        reference = weakref.ref(loader)
        self._loaders[iterator] = reference
        self._begun[reference] += 1

    def step(self) -> None:
        iterator = self.drawn() if self.drawn is not None else None
        loader = self._loaders.get(iterator) if iterator is not None else None
        self.is_next = False
        if loader is None:
            return
        self._steps[loader] += 1
        trains = self._steps[loader] == max(self._steps.values())
        self.is_next = trains and 0 < self._trained[loader] < self._begun[loader]
        self._trained[loader] = self._begun[loader]


class _Hook:
    """Wraps a method that returns something to the program."""

    def __init__(self, probe: Probe, event: str) -> None:
        self._probe = probe
        self._event = event

    def __call__(self, original: Callable[..., Any], owner: Any) -> Any:
        result = original(owner)
        self._probe.checks.tell_one(MemoryGrowth, self._event, owner, result)
        return result
