"""Silent changes: does a backward go on with values that were changed after they had been saved?

Autograd notices that by version counters, and not what `.data`, NumPy or an attribute of a custom Function's context
hides from it. Here the backward of each node that holds such a tensor is tried with the values before and after.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch.autograd.function import BackwardCFunction

from torchlint_probe.contents import Contents
from torchlint_probe.graphs import nodes
from torchlint_probe.saved import saved

_TRIED = 3
"""The number of backwards in which a change is searched."""
_RISKY = {"backward", "grad", "checkpoint", "distributed", "dist", "all_reduce", "all_gather", "open", "print"}
"""A custom backward that names one of these is not tried: it may change more than it returns."""


class Spot:
    """A change of one tensor's values.

    `alias` has its memory, `before` the values that were there when the next node to be made had the number `sequence`.
    """

    def __init__(self, alias: torch.Tensor, before: torch.Tensor, sequence: int) -> None:
        self._alias = alias.data
        self._before = before
        self._memory = _memory(alias)
        self._sequence = sequence
        self._left = _TRIED
        self.wrong: list[str] = []
        """Names of nodes whose gradients are others with the changed values."""
        self.untried = False
        """Whether a node holds the tensor whose backward cannot be tried."""

    def meet(self, roots: list[torch.Tensor]) -> bool:
        """A backward is about to run: try the nodes that have saved the tensor; returns whether to go on looking."""
        self._left -= 1
        for node in nodes(roots):
            if node._sequence_nr() < self._sequence and self._is_saved_by(node):
                self._left = 0
                self._try(node)
        return self._left > 0

    def _is_saved_by(self, node: Any) -> bool:
        held = list(saved(node))
        if isinstance(node, BackwardCFunction):
            held += Contents(dict(node.__dict__), 2).tensors
        return any(_overlap(_memory(tensor), self._memory) for tensor in held)

    def _try(self, node: Any) -> None:
        if isinstance(node, BackwardCFunction) and not _is_harmless(type(node)):
            self.untried = True
            return
        try:
            now = _gradients(node)
            after = self._alias.clone()
            self._alias.copy_(self._before)
            try:
                then = _gradients(node)
            finally:
                self._alias.copy_(after)
        except Exception:  # a backward that needs more than a gradient
            self.untried = True
            return
        if not all(map(_are_close, now, then)):
            self.wrong.append(str(node.name()))


def next_sequence() -> int:
    """Nodes that are made from now on have this number or a higher one."""
    with torch.enable_grad():
        node: Any = torch.zeros((), requires_grad=True).clone().grad_fn
    return int(node._sequence_nr())


def _memory(tensor: torch.Tensor) -> tuple[int, int]:
    try:
        storage = tensor.untyped_storage()
        return storage.data_ptr(), storage.data_ptr() + storage.nbytes()
    except (RuntimeError, NotImplementedError):  # sparse, or without memory of its own
        return 0, 0


def _overlap(one: tuple[int, int], other: tuple[int, int]) -> bool:
    return one[0] < other[1] and other[0] < one[1]


def _is_harmless(function: type) -> bool:
    """Whether the backward of a custom Function may be run once more: it is the user's, and computes only."""
    import torch.distributed as distributed

    is_distributed = distributed.is_available() and distributed.is_initialized()
    return not is_distributed and is_harmless_code(getattr(getattr(function, "_forward_cls", None), "backward", None))


def is_harmless_code(*functions: Any) -> bool:
    """Whether functions name nothing that may change more than they return."""
    codes = [getattr(function, "__code__", None) for function in functions]
    return not any(code is None or _RISKY.intersection(_names(code)) for code in codes)


def _names(code: Any) -> Iterator[str]:
    yield from (*code.co_names, *code.co_freevars)
    for constant in code.co_consts:
        if hasattr(constant, "co_names"):
            yield from _names(constant)


def _gradients(node: Any) -> list[torch.Tensor]:
    """The node's results for a gradient that is not the same everywhere."""
    incoming = [
        torch.linspace(0.5, 1.5, math.prod(item.shape), device=item.device).reshape(item.shape).to(item.dtype)
        for item in node._input_metadata
    ]
    state = torch.get_rng_state()
    with torch.no_grad():
        outgoing = node.apply(*incoming) if isinstance(node, BackwardCFunction) else node(*incoming)
    torch.set_rng_state(state)
    return [item for item in (outgoing if isinstance(outgoing, tuple) else (outgoing,)) if item is not None]


def _are_close(one: torch.Tensor, other: torch.Tensor) -> bool:
    return bool(torch.allclose(one, other, rtol=1e-3, atol=1e-7, equal_nan=True))
