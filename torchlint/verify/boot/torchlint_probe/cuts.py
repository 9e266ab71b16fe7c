"""Cuts: results that are computed without gradients from values with a graph, and then enter a layer of the same loss.

The parameters behind these values may still get gradients, from other parts of the loss.
"""

from __future__ import annotations

import dis
import functools
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterable
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any

import torch

from torchlint_probe.claim import variables_of
from torchlint_probe.contained import contained
from torchlint_probe.graphs import nodes, tensors_in
from torchlint_probe.hooks import Hook
from torchlint_probe.saved import saved

if TYPE_CHECKING:
    from torchlint_probe.probe import Probe

_KEY = "torchlint-cut"
_VISITS = 12
"""The number of observations per place."""
_PATIENCE = 2
"""A cut that does not go backward in so many backwards is forgotten."""
_LAYERS = ("AddmmBackward", "MmBackward", "ConvolutionBackward", "LinearBackward", "MvBackward", "CudnnRnnBackward")


class _Cut:
    """One cut: its site, its values with a graph, and their results."""

    def __init__(self, site: int, sources: Iterable[str], results: dict[str, torch.Tensor]) -> None:
        self.key = site, ", ".join(sorted(sources)), ", ".join(sorted(results))
        self.memory = {tensor.untyped_storage().data_ptr() for tensor in results.values()}
        self.left = _PATIENCE
        self._held = [tensor.detach() for tensor in results.values()]  # kept alive, or others might get their memory


class _Local(threading.local):
    def __init__(self) -> None:
        self.entered: list[tuple[CodeType, int] | None] = []


class Cuts:
    """Blocks and functions of the user's under `torch.no_grad`."""

    def __init__(self, probe: Probe) -> None:
        self.met: Counter[tuple[int, str, str, int]] = Counter()
        """How often a backward went through the results of a cut: by its site, names, and the site of the backward."""
        self._probe = probe
        self._pending: dict[int, _Cut] = {}
        self._visits: Counter[tuple[int, int]] = Counter()
        self._local = _Local()
        self._number = 0

    @property
    def trouble_of(self) -> Probe:
        return self._probe

    # -- a block

    def enter(self, frame: FrameType) -> None:
        """A block begins in a frame."""
        code, place = frame.f_code, frame.f_lasti
        is_wanted = self._probe.sites.file(code) >= 0 and torch.is_grad_enabled() and self._is_wanted(id(code), place)
        self._local.entered.append((code, place) if is_wanted else None)

    def leave(self, frame: FrameType) -> None:
        """It has ended."""
        entered = self._local.entered.pop() if self._local.entered else None
        if entered is not None and entered[0] is frame.f_code and frame.f_lasti > entered[1]:
            self._look(frame, entered[1])

    def _is_wanted(self, code: int, place: int) -> bool:
        self._visits[code, place] += 1
        return self._visits[code, place] <= _VISITS

    @contained
    def _look(self, frame: FrameType, start: int) -> None:
        loaded, stored = _names(frame.f_code, start, frame.f_lasti)
        variables = variables_of(frame, is_current=False)
        self._add(
            {name: variables[name] for name in loaded if name in variables},
            {name: variables[name] for name in stored if name in variables},
        )

    # -- a function

    def decorated(self, function: Callable[..., Any], original: Callable[..., Any]) -> Callable[..., Any]:
        """A user function that runs without gradients; its arguments and results are observed."""
        code = getattr(original, "__code__", None)
        if code is None or self._probe.sites.file(code) < 0:
            return function

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            result = function(*args, **kwargs)
            if not torch.compiler.is_compiling() and torch.is_grad_enabled() and self._is_wanted(id(code), -1):
                self._called(code, args, kwargs, result)
            return result

        return call

    @contained
    def _called(self, code: CodeType, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        names = code.co_varnames[: code.co_argcount]
        if not isinstance(result, (torch.Tensor, tuple, list, dict)):  # not a generator, because iterating would run it
            return
        results = {f"{code.co_name}()": tensor for tensor in tensors_in(result)[:1]}
        self._add({**dict(zip(names, args, strict=False)), **kwargs}, results)

    # -- both

    def _add(self, read: dict[str, Any], made: dict[str, Any]) -> None:
        sources = {
            name: value for name, value in read.items() if isinstance(value, torch.Tensor) and value.grad_fn is not None
        }
        results = {name: value for name, value in made.items() if _is_cut_off(value)}
        if not sources or not results:
            return
        self._number += 1
        self._pending[self._number] = _Cut(self._probe.sites.here(), sources, results)
        for value in sources.values():
            value.grad_fn.metadata.setdefault(_KEY, set()).add(self._number)

    def before_backward(self, roots: list[torch.Tensor], site: int) -> None:
        """A backward is about to run: does it go through the values, and a layer with their results?"""
        pending = dict(self._pending)
        if not pending:
            return
        graph = nodes(roots)
        numbers = {number for node in graph for number in node.metadata.get(_KEY, ())} & pending.keys()
        inputs = _inputs_of_layers(graph) if numbers and not self._probe.saved_hooks else set()
        for number, cut in pending.items():
            cut.left -= 1
            if number in numbers and inputs & cut.memory:
                met = (*cut.key, site)
                self.met[met] += 1
                cut.left = 0
            if cut.left <= 0:
                self._pending.pop(number, None)


class BlockHook:
    """Wraps `__enter__` and `__exit__` of `torch.no_grad`, which the program's frame calls."""

    def __init__(self, probe: Probe, tell: Callable[[Cuts, FrameType], None]) -> None:
        self._probe = probe
        self._tell = tell

    def __call__(self, original: Any, context: Any, *args: Any) -> Any:
        self._tell(self._probe.cuts, sys._getframe(2))
        return original(context, *args)


class DecoratorHook(Hook):
    """Wraps `torch.no_grad` as a decorator."""

    def __call__(self, original: Any, context: Any, function: Any) -> Any:
        return self._probe.cuts.decorated(original(context, function), function)


def _is_cut_off(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point() and not value.requires_grad


def _inputs_of_layers(graph: list[Any]) -> set[int]:
    layers = [node for node in graph if node.name().startswith(_LAYERS)]
    return {tensor.untyped_storage().data_ptr() for node in layers for tensor in saved(node) if not tensor.is_sparse}


@functools.lru_cache(maxsize=256)
def _names(code: CodeType, start: int, end: int) -> tuple[frozenset[str], frozenset[str]]:
    """The variables that a stretch of instructions loads, and those that it stores."""
    loaded: set[str] = set()
    stored: set[str] = set()
    for instruction in dis.get_instructions(code):
        if start < instruction.offset < end:
            names = instruction.argval if isinstance(instruction.argval, tuple) else (instruction.argval,)
            for kind, found in (("LOAD_", loaded), ("STORE_", stored)):
                if kind in instruction.opname and instruction.opname not in ("LOAD_CONST", "LOAD_ATTR", "LOAD_METHOD"):
                    found.update(name for name in names if isinstance(name, str))
    return frozenset(loaded), frozenset(stored)
