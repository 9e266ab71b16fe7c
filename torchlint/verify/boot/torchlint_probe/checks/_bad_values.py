"""The node of a graph that made the first value that is not finite, as far as saved values show it."""

from __future__ import annotations

from typing import Any

import torch

from torchlint_probe.graphs import leaves, nodes
from torchlint_probe.remembered import in_order
from torchlint_probe.saved import saved_by_name
from torchlint_probe.values import dense

_TRANSPARENT = (
    "Sum Mean Add Sub Neg View UnsafeView Reshape Squeeze Unsqueeze Expand Transpose Permute T Slice Select Index "
    "Clone Alias MseLoss NllLoss ToCopy"
).split()
"""Prefixes of operators that return finite values for finite inputs, and that may have saved none."""
_MASKING = ("MaskedFill", "Where", "Add", "Sub", "Cat", "Expand", "View", "Unsqueeze")
"""Operators that mask entries of a softmax with minus infinity."""
_RESULTS = ("_saved_result", "_saved_output", "_saved_out")
_POSITIONS = {"_saved_self": 0, "_saved_other": 1, "_saved_mat1": 1, "_saved_mat2": 2, "_saved_input": 0}
"""By saved name, the argument of the operator."""


def is_finite(tensor: Any) -> bool:
    values = dense(tensor).detach()
    return bool(torch.isfinite(values).all()) if values.is_floating_point() or values.is_complex() else True


class Bad:
    """The origin of a value that is not finite: a node, or a leaf that was not finite itself."""

    def __init__(self, node: Any = None, text: str = "its origin was not observed", leaf: torch.Tensor | None = None):
        self.node = node
        self.text = text
        self.leaf = leaf


def first_bad(root: torch.Tensor) -> Bad:
    """The first value that is not finite behind a loss."""
    graph = nodes([root])
    for leaf in leaves(graph):
        if not is_finite(leaf):
            kind = "parameter" if isinstance(leaf, torch.nn.Parameter) else "leaf"
            return Bad(leaf=leaf, text=f"a {kind} is not finite")
    ordered = in_order(graph)
    for node in ordered:
        for name, value in saved_by_name(node):
            if not is_finite(value):
                bad = _maker(node, name, value)
                if bad is not None:
                    return bad
    return _unsaved(ordered) if ordered else Bad()


def _maker(node: Any, name: str, value: torch.Tensor) -> Bad | None:
    """The node that computed a value which `node` has saved: the node itself if the value is its result."""
    count = f"{int((~torch.isfinite(dense(value))).sum()):,} of {value.numel():,} values"
    masks = bool((torch.isfinite(dense(value)) | (value == -torch.inf)).all())
    before = [item for item, _ in node.next_functions]
    if name in _RESULTS:
        text = f"`{node.name()}` computed the first value that is not finite ({count}){inputs_of(node)}"
        is_row = node.name().startswith(("Softmax", "LogSoftmax")) and bool(torch.isnan(value).any())
        return Bad(node, f"{text}: the softmax of a row of minus infinities is undefined" if is_row else text)
    position = _POSITIONS.get(name)
    if position is not None and position < len(before):
        maker = before[position]
    else:
        newest = (item for item in before if item is not None)
        maker = max(newest, key=lambda item: int(item._sequence_nr()), default=None)
    maker = _through(maker)
    if maker is None or hasattr(maker, "variable"):
        if maker is None and (masks or "mask" in name):
            return None
        return Bad(node, f"a tensor without a graph that `{node.name()}` uses is not finite ({count})")
    if masks and maker.name().startswith(_MASKING):
        return None
    return Bad(maker, f"`{maker.name()}` computed the first value that is not finite ({count}){inputs_of(maker)}")


def _through(node: Any) -> Any:
    """The node whose values a chain of views shows."""
    while node is not None and node.name().startswith(("T", "Transpose", "View", "Permute", "Expand", "Unsqueeze")):
        if node.name().startswith("Tanh") or len(node.next_functions) != 1:
            break
        node = node.next_functions[0][0]
    return node


def _unsaved(graph: list[Any]) -> Bad:
    """No node has saved a value that is not finite: recompute the results of nodes, in the order of their creation.

    A node is reported if it made such a value from finite ones, or if it is the only one with unknown results
    although its inputs are finite.
    """
    fine: dict[Any, bool | None] = {}
    suspects = []
    for node in graph:
        before = [item for item, _ in node.next_functions if item is not None]
        inputs = [True if hasattr(item, "variable") else fine.get(item) for item in before]
        result = _result(node)
        if result is not None:
            fine[node] = is_finite(result)
            if not fine[node]:
                return Bad(node, f"`{node.name()}` made it{inputs_of(node)}")
        elif _is_transparent(node):
            fine[node] = True if all(inputs) else None
        else:
            fine[node] = None
            suspects += [node] if inputs and all(inputs) else []
    unknown = [node for node in suspects if _is_last(node, graph[-1])]
    if len(unknown) == 1 and all(map(is_finite, (value for _, value in saved_by_name(unknown[0])))):
        return Bad(unknown[0], f"`{unknown[0].name()}` made it{inputs_of(unknown[0])}")
    return Bad()


def _is_transparent(node: Any) -> bool:
    name = node.name()
    return name.startswith(tuple(_TRANSPARENT)) and not name.startswith("Tanh")


def _is_last(node: Any, root: Any) -> bool:
    """Whether no other node between this one and the loss may have made the value."""
    open_nodes, seen = [root], set()
    while open_nodes:
        item = open_nodes.pop()
        if item is node:
            return True
        if item is not None and item not in seen and _is_transparent(item):
            seen.add(item)
            open_nodes += [following for following, _ in item.next_functions]
    return False


def _result(node: Any) -> torch.Tensor | None:
    """The result of a node, recomputed from its saved tensors; None if that is not possible."""
    saved = dict(saved_by_name(node))
    for name in _RESULTS:
        if name in saved:
            return saved[name]
    value, other, name = saved.get("_saved_self"), saved.get("_saved_other"), node.name()
    if other is not None and name.startswith("Div"):
        if value is not None:
            return torch.div(value.detach(), other.detach())
        return None if not bool((other == 0).any()) else torch.full((1,), torch.nan)
    if value is None:
        return None
    value = value.detach()
    if name.startswith("Mul") and other is not None:
        return value * other.detach()
    if name.startswith("Pow"):
        exponent = getattr(node, "_saved_exponent", 1)
        return value.pow(exponent.detach() if isinstance(exponent, torch.Tensor) else exponent)
    functions = {"Log10": torch.log10, "Log2": torch.log2, "Log1P": torch.log1p, "LogBackward": torch.log}
    return next((function(value) for start, function in functions.items() if name.startswith(start)), None)


def inputs_of(node: Any) -> str:
    """The ranges of a node's inputs, as the end of a sentence."""
    saved = dict(saved_by_name(node))
    ranges = []
    for position, (before, _) in enumerate(node.next_functions):
        names = (name for name, place in _POSITIONS.items() if place == position)
        value = next((saved[name] for name in names if name in saved), None)
        if value is None and before is not None and not hasattr(before, "variable"):
            value = _result(before)
        if value is not None:
            ranges.append(range_of(value))
    return f" from {' and '.join(ranges)}" if ranges else ""


def range_of(value: torch.Tensor) -> str:
    """The smallest and the largest value, as words."""
    values = dense(value).detach()
    if not values.numel() or values.is_complex():
        return "inputs without a range"
    values = values.float() if values.is_floating_point() else values
    finite = values[torch.isfinite(values)]
    if not finite.numel():
        return "inputs that are not finite"
    least, most = float(finite.min()) + 0.0, float(finite.max()) + 0.0  # no minus zero
    whole = f"inputs that are {least:.3g}" if least == most else f"inputs between {least:.3g} and {most:.3g}"
    return whole if finite.numel() == values.numel() else f"{whole} or not finite"
