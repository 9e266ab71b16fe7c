"""Calls of modules: how many there are, and which run with gradients off, and where."""

from __future__ import annotations

import threading
import weakref
from collections import Counter
from typing import Any

import torch
from torch.compiler import is_compiling

from torchlint_probe.ledger import Ledger, Slot
from torchlint_probe.sites import Sites

_MODULES = 200


class Forwards:
    """Outermost calls of modules, and outermost ones while gradients are off."""

    def __init__(self, sites: Sites) -> None:
        self.calls: Counter[tuple[int, int]] = Counter()
        """How often a module, by number, ran at a site."""
        self.modules: list[weakref.ref[torch.nn.Module]] = []
        self.names: list[str] = []
        self.trainable: list[int] = []
        self.slots: list[list[Slot]] = []
        """Of each module's parameters, those that an optimizer has."""
        self._numbers: weakref.WeakKeyDictionary[torch.nn.Module, int] = weakref.WeakKeyDictionary()
        self._sites = sites
        self.entered = 0
        """How many outermost calls of modules there were."""
        self._local = threading.local()

    def resolve(self, ledgers: list[Ledger]) -> None:
        """Find out which parameters are an optimizer's, while the modules are alive."""
        owned = {
            id(leaf): slot for ledger in ledgers for slot in ledger.slots if (leaf := slot.parameter()) is not None
        }
        for number, reference in enumerate(self.modules):
            module = reference()
            if module is not None:
                trainable = [leaf for leaf in module.parameters() if leaf.requires_grad]
                self.trainable[number] = len(trainable)
                self.slots[number] = [owned[id(leaf)] for leaf in trainable if id(leaf) in owned]

    @property
    def is_inside(self) -> bool:
        """Whether this thread is in a call of a module."""
        return getattr(self._local, "inside", False)

    def call(self, original: Any, module: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
        """`nn.Module.__call__`, which also counts; Dynamo may trace it, and sees the original only."""
        if is_compiling():
            return original(module, *args, **kwargs)
        local = self._local
        outermost = not getattr(local, "inside", False)
        off = not torch.is_grad_enabled() and not getattr(local, "off", False)
        if not outermost and not off:
            return original(module, *args, **kwargs)
        self.entered += outermost
        if off:
            self._count(module)
        local.inside = True
        local.off = off or getattr(local, "off", False)
        try:
            return original(module, *args, **kwargs)
        finally:
            local.inside = not outermost
            local.off = local.off and not off

    def _count(self, module: torch.nn.Module) -> None:
        number = self._numbers.get(module)
        if number is None:
            if len(self.modules) >= _MODULES:
                return
            number = self._numbers[module] = len(self.modules)
            self.modules.append(weakref.ref(module))
            self.names.append(type(module).__name__)
            self.trainable.append(0)
            self.slots.append([])
        self.calls[number, self._sites.here()] += 1
