"""undetached-accumulation: do the graphs of tensors at a flagged line outlive the iterations that made them?"""

from __future__ import annotations

from collections import deque
from types import FrameType, FunctionType, MemberDescriptorType, ModuleType
from typing import Any

import torch

from torchlint_probe.claim import Claim, values_of
from torchlint_probe.forwards import Forwards
from torchlint_probe.graphs import KEY

_TAGS = 600
"""So many tensors are followed for one finding,"""

_VISITS = 100
"""in so many visits of its line."""

_TAIL = 3
"""Of a container, so many of its last items are looked at."""

_BREADTH = 40
_ITEMS = 200
_PLAIN = (bool, int, float, complex, str, bytes)
_SLOT = MemberDescriptorType


class Tag:
    """Lies in the node of one tensor that was seen at the line, and tells when it goes backward and dies.

    It is the node's hook as well, and nothing else keeps it alive.
    """

    __slots__ = ("_keep", "_number")

    def __init__(self, keep: Keep, number: int) -> None:
        self._keep = keep
        self._number = number

    def __call__(self, gradients: Any) -> None:
        self._keep.went_backward(self._number)

    def __del__(self) -> None:
        self._keep.died(self._number)


class Keep:
    """What is seen of one finding.

    Time is counted in visits of the line, in the code of a module in calls of the outermost module: what one forward
    pass collects is one graph.
    """

    def __init__(self, claim: Claim, forwards: Forwards) -> None:
        self.claim = claim
        self.visits = 0
        self.backwards: list[int] = []
        """How many backwards there had been at each visit."""
        self.lives: list[list[int]] = []
        """The visit at which it was born, the backward that used it last, the visit before which it died; or -1."""
        self._forwards = forwards
        self._forward = -1
        self._passed = 0
        self.tensors = 0
        """Tensors with a graph that were seen."""
        self.items = 0
        """What was seen in the container, with a graph or without."""
        self.container = ""
        self.bound: int | None = None

    def enter(self, frame: FrameType) -> bool:
        """The line is about to run; returns whether the next visit is of interest."""
        if not self._forwards.is_inside or self._forwards.entered != self._forward:
            self._forward = self._forwards.entered
            self.visits += 1
            self.backwards.append(self._passed)
        for value in values_of(self.claim.names, frame):
            for tensor in Contents(value, 2).tensors:
                self._tag(tensor)
        for value in values_of(self.claim.container, frame):
            self._look_into(value)
        return len(self.lives) < _TAGS and self.visits < _VISITS

    def _tag(self, tensor: torch.Tensor) -> None:
        """Follow the node of a tensor, if it has one."""
        node = tensor.grad_fn
        if node is None:
            return
        self.tensors += 1
        key = (KEY, self.claim.index)
        if len(self.lives) >= _TAGS or key in node.metadata:
            return
        tag = Tag(self, len(self.lives))
        self.lives.append([self.visits, -1, -1])
        node.metadata[key] = tag
        node.register_prehook(tag)

    def backward_passed(self) -> None:
        """A backward has ended without an error."""
        self._passed += 1

    def went_backward(self, number: int) -> None:
        self.lives[number][1] = self._passed

    def died(self, number: int) -> None:
        self.lives[number][2] = self.visits

    def _look_into(self, value: Any) -> None:
        """What was put there before: the last items of a container, or of those that an object holds."""
        self.container = type(value).__name__
        self.bound = getattr(value, "maxlen", None) if self.bound is None else self.bound
        contents = Contents(value, 3)
        self.items += contents.plain + len(contents.tensors)
        for tensor in contents.tensors:
            self._tag(tensor)


class Contents:
    """The tensors in the last items of a value, and how many of those items are plain numbers and texts.

    It looks through containers and objects of the program, as deep as `depth`, and runs no code of theirs.
    """

    def __init__(self, value: Any, depth: int) -> None:
        self.tensors: list[torch.Tensor] = []
        self.plain = 0
        self._room = _ITEMS
        self._look(value, depth)

    def _look(self, value: Any, depth: int) -> None:
        self._room -= 1
        if isinstance(value, torch.Tensor):
            self.tensors.append(value)
        elif value is None or isinstance(value, _PLAIN):
            self.plain += 1
        elif depth and self._room > 0 and not isinstance(value, (torch.nn.Module, type, ModuleType, FunctionType)):
            for item in _items(value):
                self._look(item, depth - 1)


def _items(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())[-_BREADTH:]
    if isinstance(value, (list, tuple, deque)):
        return [value[index] for index in range(max(0, len(value) - _TAIL), len(value))]
    slots = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())]
    in_slots = [getattr(value, name) for name in slots if isinstance(getattr(type(value), name, None), _SLOT)]
    return (list(getattr(value, "__dict__", {}).values()) + in_slots)[:_BREADTH]
