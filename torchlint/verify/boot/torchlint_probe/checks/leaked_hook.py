"""Hooks pile up: one line registers another hook on the same module again and again, and nothing removes them.

When a hook is registered on a module, the check lists the earlier hooks that are still there. It reports a problem if
at least three of them are from the same line, function and module, and modules were called between them. Each call of
the module runs all of them, and they keep everything they refer to.

Source: `torch.nn.Module.register_forward_hook` in PyTorch's documentation, on `handle.remove()`.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import torch

from torchlint_probe.checks.check import Check, Sighting
from torchlint_probe.hooks import Hook

if TYPE_CHECKING:
    from torchlint_probe.hooks import Hooks
    from torchlint_probe.probe import Probe

_PILE = 3
_MOST = 5_000
_NAMES = ("forward_hook", "forward_pre_hook", "full_backward_hook", "full_backward_pre_hook", "backward_hook")


class _Registered:
    def __init__(self, handle: Any, calls: int) -> None:
        self.number = handle.id
        self.hooks = handle.hooks_dict_ref
        self.calls = calls

    @property
    def is_there(self) -> bool:
        hooks = self.hooks()
        return hooks is not None and self.number in hooks


class LeakedHook(Check):
    """Counts hooks that are registered and not removed."""

    name = "leaked-hook"
    code = "TL207"

    def __init__(self, probe: Any) -> None:
        super().__init__(probe)
        self._piles: dict[tuple[int, Any, int], list[_Registered]] = {}
        self._modules: dict[int, weakref.ref[torch.nn.Module]] = {}
        self._count = 0
        self._seen: dict[int, Sighting] = {}
        self._alone: dict[int, int] = {}
        """How often a line registered a hook after its earlier ones were removed."""

    @classmethod
    def tap(cls, hooks: Hooks, probe: Probe) -> None:
        for name in _NAMES:
            hooks.replace(torch.nn.Module, f"register_{name}", _Hook(probe))

    def registered(self, module: torch.nn.Module, hook: Any, handle: Any) -> None:
        """The program has registered a hook."""
        self._count += 1
        if self._count > _MOST:
            return
        known = self._modules.get(id(module))
        if known is None or known() is not module:
            self._modules[id(module)] = weakref.ref(module)
            self._piles = {key: pile for key, pile in self._piles.items() if key[2] != id(module)}
        function = getattr(hook, "func", hook)
        code = getattr(getattr(function, "__func__", function), "__code__", type(function))
        site = self.probe.sites.here()
        before = self._piles.get((site, code, id(module)), [])
        pile = [item for item in before if item.is_there]
        if before and not pile:
            self._alone[site] = self._alone.get(site, 0) + 1
        pile.append(_Registered(handle, self.probe.forwards.entered))
        self._piles[site, code, id(module)] = pile
        if len({item.calls for item in pile}) >= _PILE:
            message = (
                f"this line registered {len(pile):,} hooks on one module and removed none: each call runs them all"
            )
            self._seen[site] = Sighting(site, message, {"hooks": len(pile)})

    def acquittals(self) -> Iterator[Sighting]:
        for site, times in list(self._alone.items()):
            if times >= _PILE - 1 and site not in self._seen:
                yield Sighting(site, f"{times:,} hooks were removed before the line added the next", {"hooks": times})

    def sightings(self) -> Iterator[Sighting]:
        yield from list(self._seen.values())


class _Hook(Hook):
    """Wraps the methods that register hooks."""

    def __call__(self, original: Callable[..., Any], module: Any, hook: Any, *args: Any, **kwargs: Any) -> Any:
        handle = original(module, hook, *args, **kwargs)
        self._probe.checks.tell_one(LeakedHook, "registered", module, hook, handle)
        return handle
