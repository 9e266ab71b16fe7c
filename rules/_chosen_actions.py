"""Losses of Q-networks: values of chosen actions against targets from the best actions."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING

from torchlint.model import values
from torchlint.model.queries import numbers
from torchlint.pytorch import api, operators
from torchlint.syntax import python_ast

if TYPE_CHECKING:
    from torchlint import Model
    from torchlint.model.program import Program

_SAME = frozenset({"float", "double", "to", "detach", "contiguous", "clone", "type"})
_ELEMENTWISE = frozenset({operators.ADD, operators.SUB, operators.RSUB, operators.MUL, operators.DIV})
_CHOOSING = frozenset({"gather"})
_CONVERTED = _SAME | {"long"}
_WIDENING = frozenset({operators.UNSQUEEZE, "view", "reshape"})
_SECOND = (1, -1)
_REDUCED = frozenset({"amax", "amin"})
_EXTREMA = frozenset({"max", "min"})
_MOST_STEPS = 16


def chosen_first(first: values.Value, second: values.Value, model: Model) -> bool | None:
    """Whether the first operand is a column of chosen values, if the other one lacks its second dimension."""
    if _is_chosen(first, model.program) and _lacks_second(second, model):
        return True
    return False if _is_chosen(second, model.program) and _lacks_second(first, model) else None


def _is_chosen(value: values.Value, program: Program) -> bool:
    """Whether a value holds chosen numbers of each row and keeps the dimension: `q.gather(1, action)`."""
    value = values.resolved(value)
    while isinstance(value, values.Tensor) and value.op in _SAME and value.parents:
        value = values.resolved(value.parents[0])
    if not isinstance(value, values.Tensor) or value.op not in _CHOOSING:
        return False
    dimension = numbers.dimension(value, program)
    return dimension == 1 or (dimension == -1 and _is_widened(numbers.argument(value, 1, "index", program)))


def _is_widened(index: values.Value | None) -> bool:
    """Whether an index has a new last dimension: the values then belong to rows of a batch."""
    while isinstance(index, values.Tensor) and index.op in _CONVERTED and index.parents:
        index = values.resolved(index.parents[0])
    return isinstance(index, values.Tensor) and index.op in _WIDENING


def adds_column(value: values.Value, program: Program) -> bool:
    """Whether a sum also has a term that keeps the second dimension: a column, `memory[:, 3:4]`."""
    return any(_is_column(item, program) for item in _terms(value))


def _lacks_second(value: values.Value, model: Model) -> bool:
    """Whether a sum has a term without the second dimension: `reward + gamma * q.max(1)[0] * (1 - done)`."""
    return any(_is_extremum(item, model.program) or _is_row(item, model) for item in _terms(value))


def _terms(value: values.Value) -> Iterator[values.Value]:
    """The parts of a sum or product of the same size as the whole, or broadcast to it."""
    stack, seen = [value], set[values.Value]()
    while stack and len(seen) < _MOST_STEPS:
        item = values.resolved(stack.pop())
        if item in seen:
            continue
        seen.add(item)
        yield item
        if isinstance(item, values.Tensor) and item.op in _SAME:
            stack.extend(item.parents[:1])
        elif isinstance(item, values.Tensor) and item.op in _ELEMENTWISE:
            stack.extend(item.parents)


def _is_column(value: values.Value, program: Program) -> bool:
    """Whether an expression makes a tensor of a slice of columns: `torch.FloatTensor(batch[:, n : n + 1])`."""
    node = program.tree.node(value.site) if value.site is not None else None
    if isinstance(node, ast.Call) and node.args and python_ast.called_name(node) in api.CREATORS:
        node = node.args[0]
    index = node.slice if isinstance(node, ast.Subscript) else None
    parts = index.elts if isinstance(index, ast.Tuple) else []
    return len(parts) == 2 and all(isinstance(part, ast.Slice) for part in parts)


def _is_row(value: values.Value, model: Model) -> bool:
    """Whether a new tensor has one dimension of several elements, which code may fill: `torch.zeros(batch_size)`."""
    if not isinstance(value, values.Tensor):
        return False
    types = model.shapes.types_of(value)
    return bool(types) and all(
        item.rank == 1 and (item.sizes[0] is None or item.sizes[0].number != 1) for item in types
    )


def _is_extremum(value: values.Value, program: Program) -> bool:
    """Whether a value is `x.max(1)[0]`, `x.max(1).values` or `x.amax(1)`."""
    if isinstance(value, values.Tensor) and value.op in _REDUCED:
        return _drops_second(value, program)
    owner = values.resolved(value.parents[0]) if value.parents else None
    if not isinstance(owner, values.Tensor) or owner.op not in _EXTREMA:
        return False
    is_named = isinstance(value, values.Attribute) and value.label == "values"
    return (is_named or _takes_first(value, program)) and _drops_second(owner, program)


def _drops_second(value: values.Tensor, program: Program) -> bool:
    keeps = numbers.argument(value, 1, "keepdim", program)
    return keeps is None and numbers.dimension(value, program) in _SECOND


def _takes_first(value: values.Value, program: Program) -> bool:
    """Whether an expression is `x[0]`."""
    node = program.tree.node(value.site) if value.site is not None else None
    index = node.slice if isinstance(node, ast.Subscript) else None
    return isinstance(index, ast.Constant) and index.value == 0
