"""Which autograd graphs are alive: an object in a node's metadata dies exactly when the node does."""

from __future__ import annotations

from collections import deque
from typing import Any

import torch

KEY = "torchlint"
NODES = 5_000
"""Walks through a graph end after so many nodes."""


class Count:
    """How many tagged graphs are alive."""

    def __init__(self) -> None:
        self.alive = 0


class Root:
    """Lies in the root node of a graph that went backward."""

    __slots__ = ("_count",)

    def __init__(self, count: Count) -> None:
        self._count = count
        count.alive += 1

    def __del__(self) -> None:
        self._count.alive -= 1


def tensors_in(value: Any) -> list[torch.Tensor]:
    """The tensors that `backward` or `grad` was handed."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = value.values()
    try:
        return [item for item in value if isinstance(item, torch.Tensor)]
    except TypeError:
        return []


def nodes(roots: list[torch.Tensor], limit: int = NODES) -> list[Any]:
    """The nodes of the graph behind `roots`, breadth first."""
    queue = deque(root.grad_fn for root in roots if root.grad_fn is not None)
    seen = set(queue)
    found: list[Any] = []
    while queue and len(found) < limit:
        node = queue.popleft()
        found.append(node)
        for following, _ in node.next_functions:
            if following is not None and following not in seen:
                seen.add(following)
                queue.append(following)
    return found


def leaves(graph: list[Any]) -> list[torch.Tensor]:
    """The leaves that gradients of this graph accumulate in."""
    return [node.variable for node in graph if hasattr(node, "variable")]
