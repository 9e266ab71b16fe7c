"""The holder of a tensor: a path from a variable of the program to it."""

from __future__ import annotations

import functools
import sys
from collections import deque
from collections.abc import Callable, Iterator
from types import CodeType, FrameType, FunctionType, MethodType, ModuleType
from typing import Any

import torch

from torchlint_probe.claim import variables_of
from torchlint_probe.contents import PLAIN, items
from torchlint_probe.sites import Sites

_OBJECTS = 4_000
_DEPTH = 6
_OPAQUE = (type, ModuleType, CodeType, FrameType)

Found = Callable[[torch.Tensor], bool]


def variables(frame: FrameType, sites: Sites) -> Iterator[tuple[str, Any]]:
    """The variables that code in a frame can reach: its own, its callers', and those of the program's modules."""
    current: FrameType | None = frame
    modules: dict[int, dict[str, Any]] = {}
    while current is not None:
        if sites.file(current.f_code) >= 0:
            modules[id(current.f_globals)] = current.f_globals
            if current.f_code.co_name != "<module>":
                yield from list(variables_of(current, current is frame).items())
        current = current.f_back
    for module in list(sys.modules.values()):
        if sites.is_users(getattr(module, "__file__", None)):
            modules[id(module.__dict__)] = module.__dict__
    for names in modules.values():
        yield from ((name, value) for name, value in list(names.items()) if not name.startswith("__"))


def path_to(starts: Iterator[tuple[str, Any]], found: Found) -> str:
    """The shortest path to a tensor that is `found`; empty if there is none nearby."""
    queue = deque((name, value, 0) for name, value in starts)
    seen: set[int] = set()
    while queue and len(seen) < _OBJECTS:
        path, value, depth = queue.popleft()
        if id(value) in seen or value is None or isinstance(value, (*PLAIN, *_OPAQUE)):
            continue
        seen.add(id(value))
        if isinstance(value, torch.Tensor):
            if found(value):
                return path
        elif depth < _DEPTH:
            queue.extend((path + step, item, depth + 1) for step, item in _held_by(value))
    return ""


def _held_by(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, MethodType):
        yield "", value.__self__
    elif isinstance(value, functools.partial):
        yield from (("(...)", item) for item in (value.func, *value.args, *value.keywords.values()))
    elif isinstance(value, FunctionType):
        for name, cell in zip(value.__code__.co_freevars, value.__closure__ or (), strict=False):
            try:
                yield f".{name}", cell.cell_contents
            except ValueError:
                continue  # it is empty
        yield from items(value.__dict__, ends=False)
    else:
        yield from items(value, ends=False)
