"""`load_state_dict` with `strict=False` loads nothing, because no name in the state matches the module.

Asks after each call which names the module and the state share. Yes if they share none, the module has parameters, and
it was called afterwards with its old weights. Another load, or values that are copied by hand, make it correct. A
prefix such as `module.` or `model.` in all names looks like this.

Source: `torch.nn.Module.load_state_dict` in PyTorch's documentation, on missing and unexpected keys.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from torchlint_probe.checks._loads import Loads, own_state, versions
from torchlint_probe.checks.check import Sighting


class LoadWithoutEffect(Loads):
    """Compares names."""

    name = "load-without-effect"
    code = "TW209"

    def __init__(self, probe: Any) -> None:
        super().__init__(probe)
        self._pending: list[tuple[weakref.ref[torch.nn.Module], int, Sighting]] = []
        self._seen: list[Sighting] = []
        self._full: dict[int, int] = {}
        """By site, the entries of modules that were loaded as a whole, or 0 if one was not."""

    def loaded(self, module: torch.nn.Module, state: Mapping[str, Any]) -> None:
        own = own_state(module)
        site = self.probe.sites.here()
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
