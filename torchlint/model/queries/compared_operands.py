"""Operands that hand-written losses and metrics compare element by element."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchlint.model import values
from torchlint.pytorch import operators

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torchlint.index import FileIndex
    from torchlint.model.shapes.tensor_type import TensorType

_AMOUNTS = frozenset({operators.POW, operators.SQUARE, operators.ABS})
_INSERTED = frozenset("unsqueeze view reshape getitem expand".split())
"""Calls that create a column on purpose, for differences between all pairs."""
_COUNTS = frozenset({"sum", "mean"})
_COMPARISONS = frozenset({"compare", "eq", "ne"})
_CONVERTING = frozenset({"float", "double", "int", "long", "to"})


def may_average(index: FileIndex) -> bool:
    """Whether a file may average a squared difference."""
    return index.names_one({operators.MEAN}) and (index.has_operator(ast.Pow) or index.names_one(_AMOUNTS))


def may_count(index: FileIndex) -> bool:
    """Whether a file may count the hits of a comparison."""
    return index.names_one(_COUNTS) and (bool(index.compared_values) or index.names_one(_COMPARISONS))


def squared_difference(value: values.Value) -> tuple[values.Value, values.Value] | None:
    """The operands of a difference whose square or absolute value this value averages."""
    if not isinstance(value, values.Tensor) or value.op != operators.MEAN or len(value.parents) != 1:
        return None
    square = values.resolved(value.parents[0])
    if not isinstance(square, values.Tensor) or square.op not in _AMOUNTS or not square.parents:
        return None
    difference = values.resolved(square.parents[0])
    if not isinstance(difference, values.Tensor) or difference.op != operators.SUB or len(difference.parents) != 2:
        return None
    left, right = (values.resolved(item) for item in difference.parents)
    return None if _is_meant(left, right) else (left, right)


def counted_hits(value: values.Value) -> tuple[values.Value, values.Value] | None:
    """The operands of a comparison whose hits this value counts or averages."""
    if not isinstance(value, values.Tensor) or value.op not in _COUNTS or len(value.parents) != 1:
        return None
    hits = values.resolved(value.parents[0])
    while isinstance(hits, values.Tensor) and hits.op in _CONVERTING and hits.parents:
        hits = values.resolved(hits.parents[0])
    if not isinstance(hits, values.Tensor) or hits.op not in _COMPARISONS or len(hits.parents) != 2:
        return None
    left, right = (values.resolved(item) for item in hits.parents)
    return None if _is_meant(left, right) else (left, right)


def _is_meant(*operands: values.Value) -> bool:
    """Whether the code makes a column from one of two operands on purpose."""
    return any(isinstance(item, values.Tensor) and item.op in _INSERTED for item in operands)


def crossed(first: Sequence[TensorType], second: Sequence[TensorType]) -> tuple[int, int] | None:
    """The ranks of two tensors with samples first, if samples are broadcast against another dimension."""
    pairs = [(left, right) for left in first for right in second]
    if not pairs or not all(_is_crossed(left, right) for left, right in pairs):
        return None
    return len(pairs[0][0].sizes), len(pairs[0][1].sizes)


def _is_crossed(left: TensorType, right: TensorType) -> bool:
    """Whether two known shapes of different rank, with at least two dimensions each, can be broadcast."""
    long, short = sorted((left, right), key=lambda item: -len(item.sizes))
    if left.is_open or right.is_open or len(long.sizes) == len(short.sizes) or len(short.sizes) < 2:
        return False
    if None in (*long.sizes[1:], *short.sizes):
        return False
    aligned = zip(long.sizes[-len(short.sizes) :], short.sizes, strict=True)
    return all(
        one == other or 1 in (getattr(one, "number", None), getattr(other, "number", None)) for one, other in aligned
    )
