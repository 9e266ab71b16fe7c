"""Layouts: the sizes of a tensor whose dimensions a view names and later operators move."""

from __future__ import annotations

import ast
from typing import NamedTuple

from torchlint.model.shapes import operations
from torchlint.model.shapes.case import Case
from torchlint.model.shapes.scope import ROOT
from torchlint.model.shapes.sizes import Known
from torchlint.model.values import Module, ModuleOutput, Phi, Tensor, Value, resolved
from torchlint.pytorch import operators
from torchlint.pytorch import shapes as table

_MOST = 24
"""Maximum number of operators between a view and the tensor in question."""
_VIEWS = frozenset({"view", "reshape"})
_PRODUCTS = frozenset({"matmul", "bmm"})
_UNBINDING = frozenset({"unbind"})
_PARTS = frozenset({"chunk", "split"})
_KEEPING = frozenset(
    "contiguous softmax masked_fill masked_fill_ dropout div mul add sub float to type_as half clone relu "
    "scaled_dot_product_attention".split()
)
_KEEPING_LAYERS = frozenset({"Dropout", "Softmax", "LayerNorm", "Identity", "RMSNorm"})


class Part(NamedTuple):
    """A dimension: its size, and the number that the view names."""

    size: Known = None
    number: Value | None = None


Layout = tuple[Part, ...]


def layout(case: Case, value: Value, steps: int = _MOST) -> Layout | None:
    """The sizes of a value in order, as an earlier view names them; None without such a view."""
    value = resolved(value)
    if isinstance(value, Phi):
        found = {layout(case, item, steps - 1) for item in value.parents} if steps > 0 and not value.is_loop else set()
        return found.pop() if len(found) == 1 else None
    if steps <= 0 or not isinstance(value, Tensor) or not value.parents:
        return None
    if isinstance(value, ModuleOutput):
        module = resolved(value.parents[0])
        is_kept = isinstance(module, Module) and module.name.rpartition(".")[2] in _KEEPING_LAYERS
        return layout(case, value.parents[1], steps - 1) if is_kept and len(value.parents) > 1 else None
    if value.op in _VIEWS:
        return named(case, value)
    if value.op == operators.GETITEM:
        return _part(case, value, steps)
    inner = layout(case, value.parents[0], steps - 1)
    if inner is None or value.op in _KEEPING:
        return inner
    if value.op in _PRODUCTS:
        other = layout(case, value.parents[1], steps - 1) if len(value.parents) > 1 else None
        return (*inner[:-1], other[-1] if other is not None and len(other) == len(inner) else Part())
    return _moved(case, value, inner)


def named(case: Case, view: Tensor) -> Layout | None:
    """The sizes that a view names."""
    call = operations.operation(case, view, table.OPERATORS[view.op], ROOT)
    sizes = call.sizes_of(call.rest) if call.rest and call.is_complete else None
    if sizes is None:
        return None
    numbers = [resolved(item) for item in call.rest] if len(call.rest) == len(sizes) else [None] * len(sizes)
    return tuple(map(Part, sizes, numbers))


def _part(case: Case, value: Tensor, steps: int) -> Layout | None:
    """A chunk along the last dimension, or one element of the first dimension."""
    whole = resolved(value.parents[0])
    if not isinstance(whole, Tensor):
        return None
    if whole.op in _PARTS:
        inner = layout(case, whole.parents[0], steps - 1)
        dimension = _dimension(case, whole)
        is_last = inner is not None and dimension in (-1, len(inner) - 1)
        return (*inner[:-1], Part()) if inner is not None and is_last else None
    if whole.op in _UNBINDING:
        inner = layout(case, whole.parents[0], steps - 1)
        return inner[1:] if inner is not None and _dimension(case, whole) == 0 else None
    node = case.program.tree.node(value.site) if value.site is not None else None
    index = node.slice if isinstance(node, ast.Subscript) else None
    if index is not None and not (isinstance(index, ast.Constant) and isinstance(index.value, int)):
        return None
    inner = layout(case, whole, steps - 1)
    return inner[1:] if inner is not None else None


def _dimension(case: Case, value: Tensor) -> int | None:
    """The dimension of `chunk`, `split` or `unbind`."""
    made = case.observations.calls.get(value)
    if made is None:
        return None
    place = int(value.op not in _UNBINDING) + int(made[2] is None)
    given = made[1].get(place, "dim")
    if given is None:
        return 0
    number = getattr(resolved(given), "constant", None)
    return number if isinstance(number, int) else None


def _moved(case: Case, value: Tensor, inner: Layout) -> Layout | None:
    """The sizes after `permute` or `transpose`."""
    transfer = table.OPERATORS.get(value.op)
    if transfer is None:
        return None
    call = operations.operation(case, value, transfer, ROOT)
    if transfer.kind == table.TRANSPOSE:
        moved = list(range(len(inner)))
        first, second = call.integer("dim0"), call.integer("dim1")
        if first is None or second is None or not all(-len(inner) <= item < len(inner) for item in (first, second)):
            return None
        moved[first], moved[second] = moved[second], moved[first]
    elif transfer.kind == table.PERMUTE:
        sizes = call.sizes_of(call.rest) if call.rest and call.is_complete else None
        numbers = [item.number if item is not None else None for item in sizes or ()]
        moved = [item % len(inner) for item in numbers if item is not None]
        if sorted(moved) != list(range(len(inner))):
            return None
    else:
        return None
    return tuple(inner[index] for index in moved)
