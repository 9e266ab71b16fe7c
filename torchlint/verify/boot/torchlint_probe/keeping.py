"""undetached-accumulation: do the graphs of tensors at a flagged line outlive the iterations that made them?"""

from __future__ import annotations

from types import FrameType
from typing import Any

import torch

from torchlint_probe.claim import Claim, values_of
from torchlint_probe.forwards import Forwards
from torchlint_probe.graphs import KEY

_TAGS = 600
"""So many tensors are followed for one finding."""

_VISITS = 600

_TAIL = 3
"""Of a container, so many of its last items are looked at."""

_BREADTH = 40


class Tag:
    """Lies in the node of one tensor that was seen at the line, and tells when it goes backward and dies."""

    __slots__ = ("_keep", "_number")

    def __init__(self, keep: Keep, number: int) -> None:
        self._keep = keep
        self._number = number

    def executed(self, gradients: Any) -> None:
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
        self.untracked = 0
        self.container = ""
        self.bound: int | None = None
        self.graphs_in_container = 0
        self._open: set[int] = set()

    def enter(self, frame: FrameType) -> bool:
        """The line is about to run; returns whether the next visit is of interest."""
        if not self._forwards.is_inside or self._forwards.entered != self._forward:
            self._forward = self._forwards.entered
            self.visits += 1
            self.backwards.append(self._passed)
        for value in values_of(self.claim.names, frame):
            self._see(value)
        for value in values_of(self.claim.container, frame):
            self._look_into(value)
        return len(self.lives) < _TAGS and self.visits < _VISITS

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
            self.lives.append([self.visits, -1, -1])
            metadata[key] = tag
            node.register_prehook(_Executed(tag))
        return True

    def backward_passed(self) -> None:
        """A backward has ended without an error."""
        self._passed += 1

    def went_backward(self, number: int) -> None:
        self.lives[number][1] = self._passed

    def died(self, number: int) -> None:
        self.lives[number][2] = self.visits
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
