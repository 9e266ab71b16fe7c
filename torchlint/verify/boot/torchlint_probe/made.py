"""module-created-in-forward: does each run of the function create a new part, and does an optimizer hold it?"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from types import FrameType
from typing import TYPE_CHECKING, Any

from torch import nn

from torchlint_probe.claim import Claim, values_of
from torchlint_probe.contained import contained
from torchlint_probe.hooks import Hook
from torchlint_probe.lines import Watch
from torchlint_probe.observer import LineObserver

if TYPE_CHECKING:
    from torchlint_probe.hooks import Hooks
    from torchlint_probe.probe import Probe

_MADE = 200
_SINCE = 100
"""The number of calls of the function without a new part that is enough."""


class Made(LineObserver):
    """Parts that the statement created in forward passes: freed (`gone`), `alive`, or held by an optimizer (`owned`).

    `since` is how often the function has run since the last time.
    """

    hears_calls = True

    def __init__(self, claim: Claim, probe: Probe) -> None:
        super().__init__(claim, probe)
        self._made: list[weakref.ref[Any]] = []
        self._owned: set[int] = set()

    @classmethod
    def tap(cls, hooks: Hooks, probe: Probe) -> None:
        hooks.listen(nn.Module, "__init__", _Hook(probe))

    def watches(self) -> Sequence[Watch]:
        calls = [Watch(self.claim.file, lines, _Calls(self)) for lines in self.claim.blocks]
        return (*super().watches(), *calls)

    @property
    def is_done(self) -> bool:
        return len(self._made) >= _MADE

    def add(self, value: Any) -> None:
        """The statement has made a module or a parameter."""
        if self.probe.forwards.inside.module and not self.is_done:
            self._made.append(weakref.ref(value))
            self.counts["made"] += 1
            self.counts["since"] = 0

    def after(self, frame: FrameType) -> None:
        for value in values_of(self.claim.names, frame):
            if isinstance(value, nn.Parameter) and not any(made() is value for made in self._made):
                self.add(value)

    def before_step(self, optimizer: Any, evaluates: bool) -> None:
        alive = [(number, value) for number, made in enumerate(self._made) if (value := made()) is not None]
        if alive:
            held = {id(leaf) for group in optimizer.param_groups for leaf in group["params"]}
            self._owned |= {number for number, value in alive if not held.isdisjoint(map(id, _parameters(value)))}

    def settle(self) -> None:
        self.counts["alive"] = sum(made() is not None for made in self._made)
        self.counts["gone"] = len(self._made) - self.counts["alive"]
        self.counts["owned"] = len(self._owned)


def _parameters(value: Any) -> Iterator[nn.Parameter]:
    if isinstance(value, nn.Module):
        yield from value.parameters()
    elif value is not None:
        yield value


class _Calls:
    """Counts how often the function begins."""

    def __init__(self, made: Made) -> None:
        self._made = made

    def enter(self, frame: FrameType) -> bool:
        counts = self._made.counts
        counts["since"] += 1
        counts["calls"] += 1
        is_idle = not counts["made"] and counts["visits"] >= LineObserver.visits
        return counts["since"] < _SINCE and counts["calls"] < 2 * _SINCE and not is_idle


class _Hook(Hook):
    """Wraps the creation of modules: calls the observers whose statement creates one."""

    def __call__(self, original: Callable[..., Any], module: nn.Module, *args: Any, **kwargs: Any) -> None:
        original(module, *args, **kwargs)
        self._tell(module)

    @contained
    def _tell(self, module: nn.Module) -> None:
        for observer in self._probe.asking(Made):
            observer.add(module)
