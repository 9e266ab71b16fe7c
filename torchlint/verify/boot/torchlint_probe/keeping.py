"""undetached-accumulation: do the graphs that a flagged line keeps outlive the iterations that made them?"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from types import FrameType
from typing import TYPE_CHECKING, Any

import torch

from torchlint_probe.claim import Claim, values_of
from torchlint_probe.contents import PLAIN, Contents
from torchlint_probe.graphs import KEY, last_backward, nodes
from torchlint_probe.holders import path_to, variables
from torchlint_probe.reach import Reach
from torchlint_probe.saved import saved_bytes

if TYPE_CHECKING:
    from torchlint_probe.probe import Probe

_TAGS = 600
"""The maximum number of followed tensors for one finding,"""
_VISITS = 100
"""and of visits of its line."""
_WEIGHED = (6, 14)
"""The visits at which the bytes of the graphs are counted."""
_SEARCHED = (8, 20, 50)
"""The visits at which other holders of the graphs are searched, if the container is not one."""
_PILE = 4
_SIZED = (list, tuple, dict, set, deque)
_STEPS = 40
"""The number of nodes behind a tensor that are searched for one of an earlier visit,"""
_ALL = 4_000
"""the number that proves that there is none,"""
_LOOKED_BACK = (6, 8, 20, 50)
"""and the visits of these searches."""


class Tag:
    """A marker in the node of one tensor that reports when it goes backward and when it is freed.

    It is also the node's hook, and nothing else keeps it alive.
    """

    __slots__ = ("_keep", "number")

    def __init__(self, keep: Keep, number: int) -> None:
        self._keep = keep
        self.number = number

    def __call__(self, gradients: Any) -> None:
        self._keep.went_backward(self.number)

    def __del__(self) -> None:
        self._keep.died(self.number)


class Keep:
    """The observations about one finding, in one thread.

    Time is counted in visits of the line. In the code of a module it is counted in calls of the outermost module,
    because everything that one forward pass collects is one graph.
    """

    def __init__(self, claim: Claim, probe: Probe) -> None:
        self.claim = claim
        self.visits = 0
        self.backwards: list[int] = []
        """The number of backwards at each visit,"""
        self.steps: list[int] = []
        """and the number of steps."""
        self.lives: list[list[int]] = []
        """Visit of its birth, the last backward that used it, and the visit before which it was freed or -1; whether
        it was in the container, and the visit at which the container had released it, or -1."""
        self.tensors = 0
        """Observed tensors with a graph on the line."""
        self.clean = self.graphs = 0
        """The number of visits at which the container only held items without a graph, and with some that have one."""
        self.container = ""
        self.container_id = 0
        self.bound: int | None = None
        self.holder = ""
        """The path to another holder of graphs from earlier visits."""
        self.weights: list[int] = []
        self.chained = 0
        """The number of visits at which the container was a tensor whose graph leads back to earlier visits."""
        self._is_bound_anew = False
        """Whether it was a tensor unrelated to the one before: others hold that one."""
        self._before = -1
        """The number of the container's tensor at the visit before."""
        self._length = 0
        """The number of items at the visit before."""
        self._key = (KEY, claim.index, threading.get_ident())
        self._probe = probe
        self._is_watched = bool(probe.plan.checks)
        self._forward = -1

    def enter(self, frame: FrameType) -> bool:
        """The line is about to run; returns whether the next visit is of interest."""
        forwards = self._probe.forwards
        if not forwards.inside.module or forwards.entered != self._forward:
            self._forward = forwards.entered
            self.visits += 1
            self.backwards.append(self._probe.passed)
            self.steps.append(self._probe.steps)
        self._look_into_container(frame)
        for value in values_of(self.claim.names, frame):
            tensors = [value] if isinstance(value, torch.Tensor) else Contents(value, 2).tensors
            for tensor in tensors:
                self._tag(tensor, held=not self.claim.container and tensor is not value)
        if self.visits in _SEARCHED and self._has_unexplained_pile():
            self._search(frame)
        return len(self.lives) < _TAGS and self.visits < _VISITS

    def _look_into_container(self, frame: FrameType) -> None:
        """Follow the graphs of items that were added before: those at the ends of the container."""
        for value in values_of(self.claim.container, frame):
            self._note_emptying(value)
            self.container, self.container_id = type(value).__name__, id(value)
            if self.bound is None and isinstance(bound := getattr(value, "maxlen", None), int):
                self.bound = bound  # an object may answer to any name
            contents = Contents(value, 3)
            held = [tensor for tensor in contents.tensors if tensor.grad_fn is not None]
            self.graphs += bool(held)
            self.clean += bool(contents.count and not held)
            if isinstance(value, torch.Tensor):
                self._look_back(value)
            for tensor in held:
                self._tag(tensor, held=not self._is_bound_anew)
            if isinstance(value, torch.Tensor) and value.grad_fn is not None:
                tag = value.grad_fn.metadata.get(self._key)
                self._before = self._before if tag is None else tag.number
            if self.visits in _WEIGHED and held and not self._probe.saved_hooks:
                self.weights.append(saved_bytes(held) // (1 if isinstance(value, torch.Tensor) else len(held)))

    def _note_emptying(self, value: Any) -> None:
        """A sum that starts again, or a container with fewer items than before, has released its graphs.

        Others hold the graphs of it that are still alive.
        """
        length = len(value) if isinstance(value, _SIZED) else 0
        is_fresh = (
            value is None or isinstance(value, PLAIN) or (isinstance(value, torch.Tensor) and value.grad_fn is None)
        )
        if is_fresh or length < self._length:
            for life in self.lives:
                if life[3] and life[4] < 0:
                    life[4] = self.visits
        self._length = length

    def _look_back(self, total: torch.Tensor) -> None:
        """Check whether a tensor that is bound at each visit extends the one before, as a sum does."""
        if total.grad_fn is None:
            return
        if self._is_watched and self.visits in _SEARCHED:
            self.chained += self._leads_back(total)
        if self.visits in _LOOKED_BACK and not self._is_bound_anew and self._has_left(total):
            self._is_bound_anew = True
            for life in self.lives:
                life[3] = 0

    def _has_left(self, total: torch.Tensor) -> bool:
        """Whether the tensor before is alive, but not part of its graph."""
        if self._before < 0 or self.lives[self._before][2] >= 0:
            return False
        graph = nodes([total], _ALL)
        return len(graph) < _ALL and all(tag is None or tag.number != self._before for tag in self._tags(graph))

    def _tag(self, tensor: torch.Tensor, held: bool) -> None:
        """Follow the node of a tensor, if it has one."""
        node = tensor.grad_fn
        if node is None:
            return
        self.tensors += not held
        tag = node.metadata.get(self._key)
        if tag is not None:
            life = self.lives[tag.number]
            life[3] |= held
            life[4] = -1 if held else life[4]
            return
        if len(self.lives) >= _TAGS:
            return
        tag = Tag(self, len(self.lives))
        self.lives.append([self.visits - held, last_backward(node), -1, int(held), -1])
        node.metadata[self._key] = tag
        node.register_prehook(tag)

    def went_backward(self, number: int) -> None:
        self.lives[number][1] = self._probe.passed

    def died(self, number: int) -> None:
        self.lives[number][2] = self.visits

    # -- who holds it

    def _is_old(self, number: int) -> bool:
        return self.lives[number][0] <= self.visits - _PILE

    def _unexplained(self) -> list[int]:
        """The graphs of earlier visits that are alive and that the container does not hold, the oldest first."""
        return [
            number
            for number, life in enumerate(self.lives)
            if life[2] < 0 and (not life[3] or life[4] >= 0) and self._is_old(number)
        ]

    def _has_unexplained_pile(self) -> bool:
        """Whether there are some graphs of earlier visits that are held by something else."""
        return len(self._unexplained()) >= _PILE

    def _search(self, frame: FrameType) -> None:
        """Search the holder of the oldest graphs: deep in the container itself, then anywhere near."""
        numbers = self._unexplained()
        oldest = {number for number in numbers if self.lives[number][0] <= self.lives[numbers[0]][0] + 1}

        def leads_to_oldest(tensor: torch.Tensor) -> bool:
            return self._leads_to(tensor, lambda number: number in oldest)

        own = path_to(((self.claim.shown, value) for value in values_of(self.claim.container, frame)), leads_to_oldest)
        found = f"={own}" if own else path_to(variables(frame, self._probe.sites), leads_to_oldest)
        self.holder = found or ("" if self.holder.startswith("=") else self.holder)

    def _leads_back(self, tensor: torch.Tensor) -> bool:
        """Whether the graph of a tensor holds that of an earlier visit."""
        return self._leads_to(tensor, self._is_old)

    def _leads_to(self, tensor: torch.Tensor, wanted: Callable[[int], bool]) -> bool:
        if tensor.grad_fn is None:
            return False
        return any(tag is not None and wanted(tag.number) for tag in self._tags(nodes([tensor], _STEPS)))

    def _tags(self, graph: Iterable[Any]) -> Iterator[Any]:
        return (node.metadata.get(self._key) for node in graph)


class Keeps:
    """All observations about one finding, separate for each thread."""

    def __init__(self, claim: Claim, probe: Probe) -> None:
        self.claim = claim
        self.by_thread: dict[int, Keep] = {}
        self.emptied = Reach()
        """Whether a statement has run that empties the container, in the loop that fills it."""
        self._probe = probe

    def enter(self, frame: FrameType) -> bool:
        """The line is about to run in this thread."""
        thread = threading.get_ident()
        keep = self.by_thread.get(thread)
        if keep is None:
            keep = self.by_thread.setdefault(thread, Keep(self.claim, self._probe))
        wanted = keep.enter(frame)
        return wanted or len(self.by_thread) > 1
