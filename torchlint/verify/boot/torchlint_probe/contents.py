"""The tensors in containers and objects of the program, found without running their code."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from itertools import islice
from types import CodeType, FrameType, FunctionType, MemberDescriptorType, MethodType, ModuleType
from typing import Any

import torch

_TAIL = 3
_HEAD = 2
"""The number of first and last items of a list that are examined."""

_BREADTH = 40
_ITEMS = 200
PLAIN = (bool, int, float, complex, str, bytes)
_OPAQUE = (torch.nn.Module, type, ModuleType, FunctionType, MethodType, CodeType, FrameType)


class Contents:
    """The tensors at the ends of a value, and the number of plain numbers and texts there.

    It searches containers and objects, down to `depth`.
    """

    def __init__(self, value: Any, depth: int) -> None:
        self.tensors: list[torch.Tensor] = []
        self.plain = 0
        self._room = _ITEMS
        self._look(value, depth)

    @property
    def count(self) -> int:
        """The number of items."""
        return self.plain + len(self.tensors)

    def _look(self, value: Any, depth: int) -> None:
        self._room -= 1
        if isinstance(value, torch.Tensor):
            self.tensors.append(value)
        elif isinstance(value, PLAIN):
            self.plain += 1
        elif depth and self._room > 0 and value is not None and not isinstance(value, _OPAQUE):
            for _, item in items(value, ends=True):
                self._look(item, depth - 1)


def items(value: Any, *, ends: bool) -> Iterator[tuple[str, Any]]:
    """The items of a container or an object, each with its path; of a long one only the `ends`, or the beginning."""
    if isinstance(value, dict):
        held = list(value.items())
        yield from ((f"[{key!r}]" if isinstance(key, (str, int)) else "[...]", item) for key, item in held[-_BREADTH:])
    elif isinstance(value, (list, tuple, deque)):
        if ends and len(value) > _HEAD + _TAIL:
            chosen = [*islice(value, _HEAD), *(value[index] for index in range(-_TAIL, 0))]
        else:
            chosen = list(islice(value, _ITEMS))
        yield from (("[...]", item) for item in chosen)
    elif isinstance(value, (set, frozenset)):
        yield from (("[...]", item) for item in list(value)[:_BREADTH])
    else:
        yield from islice(_attributes(value), _BREADTH)


def _attributes(value: Any) -> Iterator[tuple[str, Any]]:
    held = getattr(value, "__dict__", None)
    if isinstance(held, dict):
        yield from ((f".{name}", item) for name, item in list(held.items()) if isinstance(name, str))
    for kind in type(value).__mro__:
        names = kind.__dict__.get("__slots__", ())
        for name in (names,) if isinstance(names, str) else names:
            slot = kind.__dict__.get(name)
            if isinstance(slot, MemberDescriptorType):
                try:
                    yield f".{name}", slot.__get__(value)
                except AttributeError:
                    continue  # it has not been set
