"""The claim of a finding as the launcher computed it: the lines to watch, and the names to read on them."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from types import FrameType, MemberDescriptorType
from typing import Any

import torch

Path = tuple[str, ...]
"""A name, then attributes (`.losses`) and constant keys (`'train`, `=0`)."""

_MISSING = object()


@dataclass(frozen=True)
class Claim:
    """One finding. Lines are ranges, the last included; `file` is a number in the plan's list."""

    index: int
    rule: str
    file: int
    statement: tuple[int, int]
    reach: tuple[int, int]
    blocks: tuple[tuple[int, int], ...]
    names: tuple[Path, ...]
    container: tuple[Path, ...]
    resets: tuple[tuple[int, int], ...]

    @property
    def shown(self) -> str:
        """The container as it is written in the code."""
        return "".join(_as_written(part) for path in self.container for part in path)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Claim:
        return cls(
            data["index"],
            data["rule"],
            data["file"],
            tuple(data["statement"]),
            tuple(data["reach"]),
            tuple((first, last) for first, last in data["blocks"]),
            tuple(tuple(path) for path in data["names"]),
            tuple(tuple(path) for path in data["container"]),
            tuple((first, last) for first, last in data["resets"]),
        )


def _as_written(part: str) -> str:
    if part.startswith("'"):
        return f"[{part[1:]!r}]"
    return f"[{part[1:]}]" if part.startswith("=") else part


def values_of(paths: tuple[Path, ...], frame: FrameType) -> Iterator[Any]:
    """The values of paths in a frame, without running any code of the program."""
    variables, module = variables_of(frame), frame.f_globals
    for path in paths:
        value = variables.get(path[0], _MISSING)
        if value is _MISSING:
            value = module.get(path[0], _MISSING)
        for part in path[1:]:
            value = _follow(value, part)
        if value is not _MISSING:
            yield value


def variables_of(frame: FrameType, is_current: bool = True) -> dict[str, Any]:
    """The local variables. Before Python 3.13 a frame's own copy of them is emptied, or it would keep tensors alive.

    The `current` frame of a trace function is left alone, because that would empty the variables themselves.
    """
    held = frame.f_locals
    if sys.version_info >= (3, 13) or not frame.f_code.co_flags & inspect.CO_OPTIMIZED:
        return held
    if is_current and sys.version_info < (3, 12):
        return held
    variables = dict(held)
    held.clear()
    return variables


def _follow(value: Any, part: str) -> Any:
    """An attribute in an object's own `__dict__`, or an item of a built-in container."""
    if part.startswith("."):
        return _attribute(value, part[1:])
    try:
        if isinstance(value, dict):
            return dict.get(value, part[1:] if part[0] == "'" else int(part[1:]), _MISSING)
        if isinstance(value, (list, tuple)):
            return value[int(part[1:])]
    except (ValueError, IndexError):
        pass
    return _MISSING


def _attribute(value: Any, name: str) -> Any:
    if isinstance(value, torch.Tensor) and name in ("data", "grad"):
        return value if name == "data" else value.grad
    slot = getattr(type(value), name, None)
    if isinstance(slot, MemberDescriptorType):
        return getattr(value, name, _MISSING)
    held = getattr(value, "__dict__", None)
    if not isinstance(held, dict):
        return _MISSING
    for place in (held, *(held.get(kind, {}) for kind in ("_parameters", "_buffers", "_modules"))):
        if name in place:
            return place[name]
    return _MISSING
