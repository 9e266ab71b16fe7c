"""The live autograd graphs: an object in a node's metadata is freed exactly when the node is."""

from __future__ import annotations

from collections import deque
from typing import Any

import torch

KEY = "torchlint"
_PASSED = "torchlint-passed"
NODES = 5_000
"""The maximum number of nodes in a traversal of a graph."""


class LiveGraphs:
    """The number of live graphs: of model outputs, and of losses without a model."""

    def __init__(self, wanted: bool) -> None:
        self.wanted = wanted
        self.alive = 0
        self._has_output = False

    def come_out(self, output: Any) -> None:
        """An outermost module has returned this."""
        self._has_output |= self._tag(tensors_in(output))

    def go_backward(self, roots: list[torch.Tensor], passed: int) -> None:
        """These tensors go backward, after so many other backwards."""
        if not self._has_output:
            self._tag(roots)
        self._has_output = False
        for root in roots:
            if root.grad_fn is not None:
                root.grad_fn.metadata[_PASSED] = passed

    def _tag(self, tensors: list[torch.Tensor]) -> bool:
        for tensor in tensors:
            node = tensor.grad_fn
            if node is not None:
                if KEY not in node.metadata:
                    node.metadata[KEY] = _Life(self)
                return True
        return False


class _Life:
    """A marker in the node of a tensor; it counts while the node is alive."""

    __slots__ = ("_graphs",)

    def __init__(self, graphs: LiveGraphs) -> None:
        self._graphs = graphs
        graphs.alive += 1

    def __del__(self) -> None:
        self._graphs.alive -= 1


def tensors_in(value: Any) -> list[torch.Tensor]:
    """The tensors that `backward` or `grad` received, or that a module returned."""
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


def last_backward(node: Any) -> int:
    """The number of backwards before the one that started at a node, or at one of its inputs; or -1."""
    near = [node, *(following for following, _ in node.next_functions if following is not None)]
    near += [following for item in near[1:] for following, _ in item.next_functions if following is not None]
    return max((item.metadata.get(_PASSED, -1) for item in near), default=-1)


def leaves(graph: list[Any]) -> list[torch.Tensor]:
    """The leaves that gradients of this graph accumulate in."""
    return [node.variable for node in graph if hasattr(node, "variable")]
