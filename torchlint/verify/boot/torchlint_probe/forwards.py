"""Calls of modules: how many there are, and which run with gradients off, and where."""

from __future__ import annotations

import functools
import threading
import weakref
from collections import Counter
from collections.abc import Callable
from typing import Any

import torch
from torch.compiler import is_compiling

from torchlint_probe.graphs import LiveGraphs
from torchlint_probe.ledger import Ledger
from torchlint_probe.sites import Sites
from torchlint_probe.slots import Slot
from torchlint_probe.spans import Spans

_MODULES = 200


class _Inside(threading.local):
    """Whether this thread is in a call of a module, and in one that began with gradients off."""

    module = False
    off = False
    root: torch.nn.Module | None = None
    """The outermost module,"""
    part: torch.nn.Module | None = None
    """and the innermost one."""


class Forwards:
    """Outermost calls of modules, and outermost ones while gradients are off."""

    def __init__(
        self,
        sites: Sites,
        graphs: LiveGraphs,
        tell: Callable[..., object] | None = None,
        observe: Callable[[bool], object] = bool,
        spans: Spans | None = None,
    ) -> None:
        """`tell` hears of each outermost call that has ended, `observe` that one without gradients begins, or ends.

        `spans` are told how long outermost calls take.
        """
        self._spans = spans
        self._tell = tell
        self._observe = observe
        self.calls: Counter[tuple[int, int]] = Counter()
        """How often a module, by number, ran at a site."""
        self.modules: list[weakref.ref[torch.nn.Module]] = []
        self.names: list[str] = []
        self.trainable: list[int] = []
        self.slots: list[dict[str, Slot]] = []
        """Of each module's parameters, by name, those that an optimizer has."""
        self.also_with: list[bool] = []
        """Whether the module was the outermost one of a call with gradients as well."""
        self._with_gradients: weakref.WeakSet[torch.nn.Module] = weakref.WeakSet()
        self.entered = 0
        """How many outermost calls of modules there were."""
        self.inside = _Inside()
        self._graphs = graphs
        self._numbers: weakref.WeakKeyDictionary[torch.nn.Module, int] = weakref.WeakKeyDictionary()
        self._sites = sites

    def resolve(self, ledgers: list[Ledger]) -> None:
        """Find out which parameters are those of an optimizer that steps, while the modules are alive."""
        if not self.modules:
            return
        slots = (slot for ledger in ledgers if ledger.made for slot in ledger.slots)
        owned = {id(leaf): slot for slot in slots if (leaf := slot.parameter()) is not None}
        for number, reference in enumerate(self.modules):
            module = reference()
            if module is not None:
                self.also_with[number] |= module in self._with_gradients
                trainable = {name: leaf for name, leaf in module.named_parameters() if leaf.requires_grad}
                self.trainable[number] = len(trainable)
                self.slots[number] = {name: owned[id(leaf)] for name, leaf in trainable.items() if id(leaf) in owned}

    def call(self, original: Any, module: torch.nn.Module, args: Any, kwargs: Any) -> Any:
        """A call that is an outermost one, of all or of those without gradients."""
        inside = self.inside
        was_inside, was_off = inside.module, inside.off
        off = not was_off and not torch.is_grad_enabled()
        if not was_inside:
            self.entered += 1
            inside.root = module
        if off:
            self._count(module)
        elif not was_inside:
            self._with_gradients.add(module)
        inside.module, inside.off = True, was_off or off
        start = self._spans.now() if self._spans is not None else 0
        if off:
            self._observe(False)
        try:
            output = original(module, *args, **kwargs)
        finally:
            if off:
                self._observe(True)
            inside.module, inside.off = was_inside, was_off
            if not was_inside:
                inside.root = None
        if self._spans is not None and not was_inside:
            self._spans.add("forward", type(module).__name__, start)
        if self._graphs.wanted and not was_inside:
            self._graphs.come_out(output)
        if self._tell is not None and not was_inside:
            self._tell(module, args, output)
        return output

    def _count(self, module: torch.nn.Module) -> None:
        number = self._numbers.get(module)
        if number is None:
            if len(self.modules) >= _MODULES:
                return
            number = self._numbers[module] = len(self.modules)
            self.modules.append(weakref.ref(module))
            self.names.append(self._name(module))
            self.trainable.append(0)
            self.slots.append({})
            self.also_with.append(False)
        self.calls[number, self._sites.here()] += 1

    def _name(self, module: torch.nn.Module) -> str:
        """Its place in the outermost module, or the variable that holds it; else its class."""
        root = self.inside.root
        if root is not None and root is not module:
            name = next((name for name, part in root.named_modules() if part is module), "")
        else:
            name = self._sites.variable(module)
        return name or type(module).__name__


def counted(original: Any, probe: Any) -> Callable[..., Any]:
    """`nn.Module.__call__`, which also counts; Dynamo may trace it, and sees the original only."""

    @functools.wraps(original)
    def call(module: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
        if is_compiling():
            return original(module, *args, **kwargs)
        seen: Forwards = probe.forwards
        inside = seen.inside
        around, inside.part = inside.part, module
        try:
            if inside.module and (inside.off or torch.is_grad_enabled()):
                return original(module, *args, **kwargs)
            return seen.call(original, module, args, kwargs)
        finally:
            inside.part = around

    return call
