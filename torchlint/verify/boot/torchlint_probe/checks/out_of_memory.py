"""Memory runs out. The report shows what holds the memory and whether it grew from step to step.

The check runs when a failed allocation ends the program. It reports a problem if the error is PyTorch's out-of-memory
error of a GPU, or the error of its CPU allocator. The report counts the bytes of parameters, gradients and optimizer
states. It also counts the tensors that the program's graphs have saved at that moment, by the line that created them.
Memory has grown if, after each of the last two steps, it is larger than after the third and fourth step by at least a
quarter and at least 128 MB. The heap of a process may keep smaller amounts that are not in use.

Source: "My model reports out of memory" in PyTorch's FAQ; "CUDA semantics, memory management" in its documentation.
"""

from __future__ import annotations

import weakref
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Any

import torch

from torchlint_probe.checks._names import leaves_of
from torchlint_probe.checks.check import Check, Sighting
from torchlint_probe.contents import Contents
from torchlint_probe.graphs import nodes
from torchlint_probe.operators import origin
from torchlint_probe.saved import saved

_ON_CPU = ("DefaultCPUAllocator", "not enough memory")
_LINES = 3
_FROM = 3
_GROWN = 1.25
_OF_HEAP = 128_000_000
_UNITS = ("bytes", "kB", "MB", "GB")


class OutOfMemory(Check):
    """Counts only when the program fails."""

    name = "out-of-memory"
    code = "TW502"
    uses_lines = True

    def __init__(self, probe: Any) -> None:
        super().__init__(probe)
        self._optimizers: weakref.WeakSet[Any] = weakref.WeakSet()
        self._seen: Sighting | None = None

    def before_step(self, optimizer: Any) -> None:
        self._optimizers.add(optimizer)

    def died(self, error: BaseException) -> None:
        if not _is_out_of_memory(error):
            return
        leaves = [leaf for optimizer in list(self._optimizers) for leaf in leaves_of(optimizer)]
        states = [state.values() for optimizer in list(self._optimizers) for state in optimizer.state.values()]
        graphs = self._of_graphs(error.__traceback__, {_storage(leaf) for leaf in leaves})
        numbers = {
            "parameters": _bytes(leaves),
            "gradients": _bytes(leaf.grad for leaf in leaves),
            "optimizer_state": _bytes(item for state in states for item in state),
            "graphs": sum(graphs.values()),
        }
        held = ", ".join(f"{name.replace('_', ' ')} {_size(size)}" for name, size in numbers.items())
        message = f"memory ran out; in use were {held}{self._lines(graphs)}{self._growth(numbers)}"
        site = self.probe.sites.of_traceback(error.__traceback__)
        self._seen = Sighting(site, message, numbers, self.probe.steps)

    def _of_graphs(self, traceback: TracebackType | None, others: set[int]) -> Counter[int]:
        """Bytes that graphs have saved, by their site; for all graphs that a frame of the error holds."""
        counts: Counter[int] = Counter()
        if self.probe.saved_hooks:
            return counts  # reading a graph would run code of the program
        for node in nodes([tensor for tensor in _held(traceback) if tensor.grad_fn is not None]):
            for tensor in saved(node):
                if _storage(tensor) not in others:
                    others.add(_storage(tensor))
                    counts[origin(node).site] += _bytes([tensor])
        return counts

    def _lines(self, graphs: Counter[int]) -> str:
        stacks, files = self.probe.sites.stacks, self.probe.sites.files
        most = [(stacks[site][0], size) for site, size in graphs.most_common(_LINES) if stacks[site]]
        named = [f"{files[place[0]].rpartition('/')[2]}:{place[1]} {_size(size)}" for place, size in most]
        return f" (most of it {', '.join(named)})" if named else ""

    def _growth(self, numbers: dict[str, float]) -> str:
        """Whether memory had grown, as the end of a sentence."""
        records = [record for record in self.probe.timeline.records if "memory" in record]
        if len(records) <= 2 * _FROM:
            return "; it ran out in the first steps"
        first = max(records[_FROM - 1 : _FROM + 1], key=_memory)  # the system sometimes takes memory back
        last = min(records[-2:], key=_memory)
        grown = last["memory"] - first["memory"]
        numbers["grown"] = grown / (last["step"] - first["step"])
        if last["memory"] < _GROWN * first["memory"] or grown < _OF_HEAP:
            return "; it had not grown from step to step: the step itself is too large"
        return f"; it had grown by {_size(numbers['grown'])} a step: the program keeps something"

    def sightings(self) -> Iterator[Sighting]:
        if self._seen is not None:
            yield self._seen


def _memory(record: dict[str, Any]) -> float:
    return float(record["memory"])


def _is_out_of_memory(error: BaseException) -> bool:
    of_gpu = getattr(torch, "OutOfMemoryError", torch.cuda.OutOfMemoryError)
    return isinstance(error, (of_gpu, MemoryError)) or any(text in str(error) for text in _ON_CPU)


def _held(traceback: TracebackType | None) -> Iterator[torch.Tensor]:
    """The tensors that the variables of the frames of an error hold, and the containers and objects in them."""
    while traceback is not None:
        for value in list(traceback.tb_frame.f_locals.values()):
            if isinstance(value, (list, tuple, deque)):
                yield from (item for item in list(value) if isinstance(item, torch.Tensor))
            yield from Contents(value, 2).tensors
        traceback = traceback.tb_next


def _storage(tensor: torch.Tensor) -> int:
    try:
        return int(tensor.untyped_storage().data_ptr())
    except (RuntimeError, NotImplementedError):  # sparse
        return id(tensor)


def _bytes(tensors: Iterable[Any]) -> int:
    """The bytes of all tensors among these values; each storage counts once."""
    found = {_storage(item): item.nbytes for item in tensors if isinstance(item, torch.Tensor)}
    return int(sum(found.values()))


def _size(count: float) -> str:
    for unit in _UNITS[:-1]:
        if abs(count) < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} {_UNITS[-1]}"
