"""Loaded weights are initialized again before anything uses them.

For each function of `torch.nn.init`, `normal_` and `uniform_`, the check asks whether the call overwrites weights that
a module has loaded and not used yet. It reports a problem if that happened to at least nine in ten of the loaded weight
matrices. A new head for loaded weights is fine, and so are weights that are loaded again afterwards.

Source: `torch.nn.Module.load_state_dict` in PyTorch's documentation; "Saving and Loading Models" in its tutorials.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch.nn import init

from torchlint_probe.checks._loads import Loads, memory, own_state
from torchlint_probe.checks.check import Operated, Sighting

_SHARE = 0.9
_RANDOM = ("normal_", "uniform_", "trunc_normal_", "orthogonal_", "sparse_", "eye_", "dirac_")
_SCALED = ("xavier_normal_", "xavier_uniform_", "kaiming_normal_", "kaiming_uniform_")


class _Load:
    """Loaded weights of a module that nothing has used yet, by their memory, and those that were overwritten."""

    def __init__(self, module: torch.nn.Module, weights: dict[int, torch.Tensor], site: int) -> None:
        self.module = weakref.ref(module)
        self.weights = {place: weakref.ref(weight) for place, weight in weights.items()}
        self.site = site
        self.filled: dict[int, int] = {}


class InitializedAfterLoading(Loads):
    """Follows weights from their load to the first call of a model."""

    name = "initialized-after-loading"
    code = "TL323"

    def __init__(self, probe: Any) -> None:
        super().__init__(probe)
        self._loads: list[_Load] = []
        self._seen: dict[int, Sighting] = {}
        self._right: dict[int, Sighting] = {}

    def operators(self) -> Mapping[Any, Operated]:
        functions = [getattr(init, name) for name in (*_RANDOM, *_SCALED)]
        return dict.fromkeys([*functions, torch.Tensor.normal_, torch.Tensor.uniform_], self._operated)

    def _operated(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        if not self._loads:
            return
        tensor = args[0] if args else kwargs.get("tensor")
        place = memory(tensor) if isinstance(tensor, torch.Tensor) else 0
        for load in self._loads:
            if place in load.weights:
                load.filled[place] = self.probe.sites.here()

    def loaded(self, module: torch.nn.Module, state: Mapping[str, Any]) -> None:
        own = own_state(module)
        weights = {memory(own[name]): own[name] for name in own if name in state and own[name].dim() > 1}
        weights.pop(0, None)
        for load in self._loads:
            load.filled = {place: site for place, site in load.filled.items() if place not in weights}
        if weights:
            self._loads.append(_Load(module, weights, self.probe.sites.here()))

    def called(self, module: torch.nn.Module, args: Any, output: Any) -> None:
        if not self._loads:
            return
        parts = {id(part) for part in module.modules()}
        for load in list(self._loads):
            owner = load.module()
            if owner is None or id(owner) in parts:
                self._loads.remove(load)
                if owner is not None:
                    self._judge(load)

    def _judge(self, load: _Load) -> None:
        alive = {place for place, weight in load.weights.items() if weight() is not None}
        filled = [site for place, site in load.filled.items() if place in alive]
        if filled and len(filled) >= _SHARE * len(load.weights):
            site = max(set(filled), key=filled.count)
            message = (
                f"{len(filled):,} of {len(load.weights):,} loaded weights were initialized again here, "
                "before anything used them"
            )
            self._seen.setdefault(site, Sighting(site, message, {"weights": len(filled)}, self.probe.steps))
        elif alive:
            kept = len(alive) - len(filled)
            message = f"the program uses {kept:,} of {len(load.weights):,} loaded weights as loaded"
            for site in {*filled, load.site}:
                self._right.setdefault(site, Sighting(site, message, {"weights": kept}))

    def acquittals(self) -> Iterator[Sighting]:
        yield from (seen for site, seen in list(self._right.items()) if site not in self._seen)

    def sightings(self) -> Iterator[Sighting]:
        yield from list(self._seen.values())
