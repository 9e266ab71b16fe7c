"""Calls of modules: their number, those that run with gradients off, and their sites."""

from __future__ import annotations

import functools
import sys
import threading
import weakref
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch.compiler import is_compiling

from torchlint_probe.ledger import Ledger
from torchlint_probe.operators import unobserved
from torchlint_probe.slots import Slot

if TYPE_CHECKING:
    from torchlint_probe.probe import Probe

_MODULES = 200


class _Inside(threading.local):
    """Whether this thread is in a call of a module, and in one that began with gradients off."""

    module = False
    off = False
    root: torch.nn.Module | None = None
    """The outermost module,"""
    part: torch.nn.Module | None = None
    """and the innermost one."""
    is_routine = False
    """Whether the outermost call is one of routine."""


class Forwards:
    """Outermost calls of modules, and outermost ones while gradients are off."""

    def __init__(self, probe: Probe, tell: Callable[..., object] | None = None) -> None:
        """`tell` receives each outermost call that has ended."""
        self._probe = probe
        self._spans = probe.spans
        self._lines = probe.lines
        self._libraries: dict[type, bool] = {}
        """Whether a class is one of a library."""
        self._tell = tell
        self.calls: Counter[tuple[int, int]] = Counter()
        """The number of calls of a module, by its number, at a site."""
        self.modules: list[weakref.ref[torch.nn.Module]] = []
        self.names: list[str] = []
        self.trainable: list[int] = []
        self.slots: list[dict[str, Slot]] = []
        """For each module, its parameters that an optimizer has, by name."""
        self.also_with: list[bool] = []
        """Whether the module was the outermost one of a call with gradients as well."""
        self._trained: weakref.WeakSet[torch.nn.Module] = weakref.WeakSet()
        """Modules whose last observed call was in training mode, with gradients."""
        self._with_gradients: weakref.WeakSet[torch.nn.Module] = weakref.WeakSet()
        self.entered = 0
        """The number of outermost calls of modules."""
        self.inside = _Inside()
        self._graphs = probe.graphs
        self._numbers: weakref.WeakKeyDictionary[torch.nn.Module, int] = weakref.WeakKeyDictionary()
        self._sites = probe.sites

    def resolve(self, ledgers: list[Ledger]) -> None:
        """Find the parameters of an optimizer that steps, while the modules still exist."""
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

    def runs_of(self, module: torch.nn.Module) -> int:
        """How often a module or a part of it was the outermost one that ran without gradients."""
        numbers = {number for part in module.modules() if (number := self._numbers.get(part)) is not None}
        return sum(count for (number, _), count in list(self.calls.items()) if number in numbers)

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
        start = self._spans.now()
        if off:
            self._probe.observe_operators(False)
        self.follow(module)
        try:
            output = original(module, *args, **kwargs)
        except Exception as error:
            if not was_inside and not off:
                self._probe.note_error(error)
            raise
        finally:
            self._lines.switch(False)
            if off:
                self._probe.observe_operators(True)
            inside.module, inside.off = was_inside, was_off
            if not was_inside:
                inside.root = None
        if not was_inside:
            self._spans.add("forward", type(module).__name__, start)
            with unobserved():
                self._end(module, args, output)
            if module.training and not was_off and not off and self._tell is not None:
                self._trained.add(module)
        return output

    def _end(self, module: torch.nn.Module, args: Any, output: Any) -> None:
        """An outermost call has ended."""
        if self._graphs.wanted:
            self._graphs.come_out(output)
        if self._tell is not None:
            self._tell(module, args, output)

    def is_routine(self, module: torch.nn.Module) -> bool:
        """Whether an outermost call trains the same module as the last observed call."""
        return module.training and self._tell is not None and module in self._trained and torch.is_grad_enabled()

    def pass_by(self, original: Any, module: torch.nn.Module, args: Any, kwargs: Any) -> Any:
        """A routine call while steps are only counted: no check observes it, and no line is followed."""
        inside = self.inside
        self.entered += 1
        inside.root, inside.module, inside.is_routine = module, True, True
        try:
            output = original(module, *args, **kwargs)
        finally:
            inside.root, inside.module, inside.is_routine = None, False, False
        if self._graphs.wanted:
            self._graphs.come_out(output)
        self._probe.checks.tell("passed_by", args)
        return output

    def change_modes(self) -> None:
        """The program has switched the mode of a module: the next call is not routine."""
        self._trained.clear()

    def follow(self, module: torch.nn.Module) -> None:
        """A module begins to run: follow the lines of one that is the program's own, or that has hooks."""
        if self._lines.slows:
            is_bare = self.is_of_library(type(module)) and not (module._forward_hooks or module._forward_pre_hooks)
            self._lines.switch(not is_bare)

    def is_of_library(self, kind: type) -> bool:
        """Whether a class is one of a library."""
        known = self._libraries.get(kind)
        if known is None:
            file = getattr(sys.modules.get(kind.__module__), "__file__", None)
            known = self._libraries[kind] = file is not None and self._sites.file_named(file) < 0
        return known

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
    """`nn.Module.__call__` with a counter. Dynamo may trace it, and only sees the original."""

    switch = probe.lines.switch

    @functools.wraps(original)
    def call(module: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
        if is_compiling():
            return original(module, *args, **kwargs)
        seen: Forwards = probe.forwards
        inside = seen.inside
        if inside.is_routine:
            return original(module, *args, **kwargs)
        was_followed = switch(False)
        around, inside.part = inside.part, module
        try:
            if inside.module and (inside.off or torch.is_grad_enabled()):
                seen.follow(module)
                return original(module, *args, **kwargs)
            if probe.passes_routine and seen.is_routine(module):
                return seen.pass_by(original, module, args, kwargs)
            return seen.call(original, module, args, kwargs)
        finally:
            switch(False)
            inside.part = around
            if was_followed:
                switch(True)

    return call
