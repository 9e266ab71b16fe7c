"""Operators that the program's Python code calls: checks receive some of them, and graphs store the lines of all."""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Mapping, Sequence
from types import FrameType, FunctionType
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from torchlint_probe.contained import contained

if TYPE_CHECKING:
    from torchlint_probe.checks.check import Operated
    from torchlint_probe.probe import Probe

_KEY = "torchlint-origin"
_LIBRARIES = ("torch.", "torchlint_probe.")
unobserved = torch._C.DisableTorchFunction
"""A context for the probe's own code: the mode, which is slow, does not receive the attributes of tensors it reads."""


class Origin(NamedTuple):
    """The site at which a node of a graph was made, and the module whose forward was running; a module may be gone."""

    site: int = 0
    part: weakref.ref[torch.nn.Module] | None = None

    @property
    def module(self) -> torch.nn.Module | None:
        return None if self.part is None else self.part()


_UNSEEN = Origin()


def weak(module: torch.nn.Module | None) -> weakref.ref[torch.nn.Module] | None:
    """A reference that does not keep a module alive."""
    return None if module is None else weakref.ref(module)


class Replaced:
    """The functions of torch that the program replaces with its own.

    PyTorch names a running function to a mode by its global name, and under that name is the replacement: to call that
    would run the program's code a second time.
    """

    def __init__(self) -> None:
        places = [vars(functional), vars(torch.functional), vars(torch.Tensor)]
        originals = (_original(function) for place in places for function in place.values())
        self._by_code = {item.__code__: item for item in originals if isinstance(item, FunctionType)}

    def of(self, func: FunctionType, caller: FrameType) -> FunctionType:
        """The function that asks for the mode, in whose frame `caller` is."""
        return func if caller.f_code is func.__code__ else self._by_code.get(caller.f_code, func)


class Operators(TorchFunctionMode):  # type: ignore[misc]  # mypy does not look into torch
    """A mode that is on during observed steps, in the thread that imported torch, and never in compiled code.

    It is off without gradients: some modules then take a faster path, which rounds differently, if no mode is on.
    """

    def __init__(self, probe: Probe, told: Mapping[Any, Sequence[Operated]], always: Sequence[Operated]) -> None:
        super().__init__()
        self._always = list(always)
        self._probe = probe
        self._told = dict(told)
        self._replaced = Replaced()
        self._thread = 0
        self._switch = probe.lines.switch
        self.is_on = False
        self.is_searching = False
        """Whether it stays on in unobserved steps, and where gradients are off."""
        self.is_over = False
        """Whether it must not be switched on again."""

    @property
    def trouble_of(self) -> Probe:
        return self._probe

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if isinstance(func, FunctionType) and not func.__globals__["__name__"].startswith(_LIBRARIES):
            func = self._replaced.of(func, sys._getframe(2))
        try:
            result = func(*args, **kwargs)
        except Exception as error:
            if not self._probe.forwards.inside.module:
                self._probe.note_error(error, True)
            raise
        if not self.is_over and (isinstance(result, torch.Tensor) or getattr(func, "__name__", "") != "__get__"):
            is_followed = self._switch(False)
            self._tell(func, args, kwargs, result)
            self._switch(is_followed)
        return result

    @contained
    def _tell(self, func: Any, args: Any, kwargs: Any, result: Any) -> None:
        if isinstance(result, torch.Tensor) and result.requires_grad:
            self._note_origin(result)
        told = self._told.get(func)
        if told is None:
            told = self._told[func] = self._told.get(_original(func), ())
        for operated in told:
            operated(_original(func), args, kwargs, result)
        for operated in self._always:
            operated(func, args, kwargs, result)

    def _note_origin(self, result: torch.Tensor) -> None:
        try:
            node = result.grad_fn
        except RuntimeError:  # a view that may no longer be read; the program handles that
            return
        if node is not None and _KEY not in node.metadata:
            node.metadata[_KEY] = Origin(self._probe.sites.here(), weak(self._probe.forwards.inside.part))

    def listen(self, operated: Operated, on: bool) -> None:
        """Start or stop reporting all calls to a listener."""
        if on and operated not in self._always:
            self._always.append(operated)
        elif not on and operated in self._always:
            self._always.remove(operated)

    def switch(self, on: bool) -> None:
        """Switch it on or off, where that can be done without disturbing other modes."""
        if on is self.is_on or self.is_over or (self._thread and self._thread != threading.get_ident()):
            return
        if on:
            self._thread = threading.get_ident()
            self.__enter__()
            self.is_on = True
        elif _is_innermost(self):
            self.__exit__(None, None, None)
            self.is_on = False

    def end(self) -> None:
        """Code is about to be compiled: it must not see the mode."""
        self.switch(False)
        self.is_over = True


def note(node: Any, made: Origin) -> None:
    """Store the site that made a graph node."""
    node.metadata.setdefault(_KEY, made)


def origin(node: Any) -> Origin:
    """The site that made a graph node; empty if it was not observed."""
    found: Origin = node.metadata.get(_KEY, _UNSEEN)
    return found


def _original(func: Any) -> Any:
    """The function of torch that a hook has been put around."""
    while (original := getattr(func, "__original_fn", None)) is not None:
        func = original
    return func


def _is_innermost(mode: TorchFunctionMode) -> bool:
    stack = torch.overrides._get_current_function_mode_stack()
    return bool(stack) and stack[-1] is mode
