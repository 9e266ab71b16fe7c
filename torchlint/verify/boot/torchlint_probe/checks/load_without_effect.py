"""`load_state_dict` with `strict=False` loads nothing, because no name in the state matches the module.

After each call, the check compares the names in the module with those in the state. It reports a problem if they have
no name in common, the module has parameters, and it was called afterwards with its old weights. Another load, or values
that are copied by hand, make it correct. A prefix such as `module.` or `model.` in all names looks like this.

It also reports a problem if the program reads a file with `torch.load`, but the state that it loads into the module
contains no tensor of the file, only the module's own tensors. No entry of the file matched. This applies to loads
before the first step.

Source: `torch.nn.Module.load_state_dict` in PyTorch's documentation, on missing and unexpected keys.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import torch

from torchlint_probe.checks._loads import Loads, loads_itself, own_state, versions
from torchlint_probe.checks.check import Sighting
from torchlint_probe.hooks import Hook

if TYPE_CHECKING:
    from torchlint_probe.hooks import Hooks
    from torchlint_probe.probe import Probe


class LoadWithoutEffect(Loads):
    """Compares names."""

    name = "load-without-effect"
    code = "TW209"

    def __init__(self, probe: Any) -> None:
        super().__init__(probe)
        self._pending: list[tuple[weakref.ref[torch.nn.Module], int, Sighting]] = []
        self._seen: list[Sighting] = []
        self._has_read = False
        """Whether `torch.load` has read a file since the last load with an effect."""
        self._full: dict[int, int] = {}
        """By site, the entries of modules that were loaded as a whole, or 0 if one was not."""

    @classmethod
    def tap(cls, hooks: Hooks, probe: Probe) -> None:
        super().tap(hooks, probe)
        for module in (torch, torch.serialization):
            hooks.replace(module, "load", _Read(probe))

    def read(self) -> None:
        """The program has read a file."""
        self._has_read = True

    def loaded(self, module: torch.nn.Module, state: Mapping[str, Any]) -> None:
        own = own_state(module)
        site = self.probe.sites.here()
        if not self.probe.steps and self._has_read and loads_itself(module, state):
            message = "the state has only the module's own tensors: nothing from the file is loaded"
            self._pending.append((weakref.ref(module), versions(module), Sighting(site, message, {}, 0)))
            return
        self._has_read = False
        is_full = bool(own) and set(own) == set(state)
        self._full[site] = len(own) if is_full and self._full.get(site, 1) else 0
        self._pending = [item for item in self._pending if item[0]() not in (None, module)]
        if not own or not state or set(own) & set(state) or not any(True for _ in module.parameters()):
            return
        names = f"`{next(iter(state))}`, and those of the module like `{next(iter(own))}`"
        message = f"none of the {len(state):,} entries was loaded: their names look like {names}"
        seen = Sighting(site, message, {"entries": len(state)}, self.probe.steps)
        self._pending.append((weakref.ref(module), versions(module), seen))

    def called(self, module: torch.nn.Module, args: Any, output: Any) -> None:
        if not self._pending:
            return
        parts = {id(part) for part in module.modules()}
        for item in list(self._pending):
            loaded = item[0]()
            if loaded is not None and id(loaded) in parts:
                self._pending.remove(item)
                if versions(loaded) == item[1]:
                    self._seen.append(item[2])

    def acquittals(self) -> Iterator[Sighting]:
        for site, entries in list(self._full.items()):
            if entries:
                yield Sighting(site, f"all {entries:,} entries of the module were loaded", {"entries": entries})

    def sightings(self) -> Iterator[Sighting]:
        yield from list(self._seen)


class _Read(Hook):
    """Wraps `torch.load`."""

    def __call__(self, original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        result = original(*args, **kwargs)
        self._probe.checks.tell_one(LoadWithoutEffect, "read")
        return result
