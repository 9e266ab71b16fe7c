"""undetached-accumulation: do the graphs of tensors at a flagged line outlive the iterations that made them?"""

from __future__ import annotations

from types import FrameType
from typing import Any

import torch

from torchlint_probe.claim import Claim, values_of
from torchlint_probe.graphs import KEY

_TAGS = 600
"""So many tensors are followed for one finding."""

_TAIL = 3
"""Of a container, so many of its last items are looked at."""

_BREADTH = 40


class Tag:
    """Lies in the node of one tensor that was seen at the line: when it was born, went backward, and died."""

    __slots__ = ("_keep", "_number")

    def __init__(self, keep: Keep, number: int) -> None:
        self._keep = keep
        self._number = number

    def executed(self, gradients: Any) -> None:
        self._keep.went_backward(self._number)

    def __del__(self) -> None:
        self._keep.died(self._number)


class Keep:
    """What is seen of one finding. Times are counted in visits of the line."""

    def __init__(self, claim: Claim) -> None:
        self.claim = claim
        self.hits = 0
        self.lives: list[list[int]] = []
        self.tensors = 0
        self.untracked = 0
        self.container = ""
        self.bound: int | None = None
        self.graphs_in_container = 0
        self._open: set[int] = set()

    def enter(self, frame: FrameType) -> bool:
        """The line is about to run; returns whether the next visit is of interest."""
        self.hits += 1
        for value in values_of(self.claim.names, frame):
            self._see(value)
        for value in values_of(self.claim.container, frame):
            self._look_into(value)
        return len(self.lives) < _TAGS

    def _see(self, value: Any) -> None:
        if isinstance(value, torch.Tensor):
            self._tag(value)

    def _tag(self, tensor: torch.Tensor) -> bool:
        """Follow the node of a tensor; False where it has none."""
        self.tensors += 1
        node = tensor.grad_fn
        if node is None:
            self.untracked += 1
            return False
        if len(self.lives) >= _TAGS:
            return True
        metadata = node.metadata
        key = (KEY, self.claim.index)
        if key not in metadata:
            tag = Tag(self, len(self.lives))
            self._open.add(len(self.lives))
            self.lives.append([self.hits, -1, -1])
            metadata[key] = tag
            node.register_prehook(_Executed(tag))
        return True

    def went_backward(self, number: int) -> None:
        self.lives[number][1] = self.hits

    def died(self, number: int) -> None:
        self.lives[number][2] = self.hits
        self._open.discard(number)

    def _look_into(self, value: Any) -> None:
        """The last items of a container, or of the containers that an object holds: what was put there before."""
        self.container = type(value).__name__
        self.bound = getattr(value, "maxlen", None) if self.bound is None else self.bound
        self.graphs_in_container = sum(self._tag(tensor) for tensor in _tail(value, 3))


class _Executed:
    """A node's hook that keeps nothing alive but its tag."""

    __slots__ = ("_tag",)

    def __init__(self, tag: Tag) -> None:
        self._tag = tag

    def __call__(self, gradients: Any) -> None:
        self._tag.executed(gradients)


def _tail(value: Any, depth: int) -> list[torch.Tensor]:
    """Tensors in the last items of `value`, through containers and objects of the program."""
    if isinstance(value, torch.Tensor):
        return [value]
    if depth == 0 or isinstance(value, (str, bytes, int, float, torch.nn.Module)):
        return []
    if isinstance(value, dict):
        items = list(value.values())[-_BREADTH:]
    elif isinstance(value, (list, tuple)) or type(value).__name__ == "deque":
        items = [value[index] for index in range(max(0, len(value) - _TAIL), len(value))]
    else:
        items = list(getattr(value, "__dict__", {}).values())[:_BREADTH]
    return [tensor for item in items for tensor in _tail(item, depth - 1)]
