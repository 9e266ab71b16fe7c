"""Samples of a program's datasets: the certain sizes of the results of `__getitem__`."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING

from torchlint.model.definitions import ClassInfo, FunctionInfo
from torchlint.model.shapes.tensor_type import ANY, TensorType
from torchlint.model.values import Container, NewTensor, Plain, Tensor, Value, resolved
from torchlint.pytorch import operators

if TYPE_CHECKING:
    from torchlint.model.program import Program

_NUMBERS = frozenset({"float", "int", "bool", "len"})
_OTHER_ITEMS = ("__getitems__", "__iter__")


def sample_type(program: Program, info: ClassInfo, key: object, type_of: Callable[[Value], TensorType]) -> TensorType:
    """The type of a part of each sample, before collation; the part by its key in a batch."""
    method = info.method("__getitem__")
    if method is None or len(method.parameters) != 2 or any(info.method(name) is not None for name in _OTHER_ITEMS):
        return ANY
    types = {_type_of(program, method, part, type_of) for part in _parts(program, info, key)}
    return types.pop() if len(types) == 1 else ANY


def _parts(program: Program, info: ClassInfo, key: object) -> list[Value | None]:
    """The value under a key in each `return` of the method."""
    return [_part(resolved(item), key) for item in program.samples_of(info)]


def _part(sample: Value, key: object) -> Value | None:
    if not isinstance(sample, Container) or sample.is_open or sample.grown:
        return None
    named = {f"[{index}]": item for index, item in enumerate(sample.parents)}
    named |= {f"[{name!r}]": item for name, item in sample.entries.items()}
    found = named.get(str(key))
    return resolved(found) if found is not None else None


def _type_of(
    program: Program, method: FunctionInfo, part: Value | None, type_of: Callable[[Value], TensorType]
) -> TensorType:
    if part is None:
        return ANY
    if _is_number(program, part):
        return TensorType((), dtype=None)
    if isinstance(part, NewTensor):
        made = program.observations.calls.get(part)
        given = made[1].positional if made is not None and made[0] == "tensor" else []
        if len(given) == 1 and _is_number(program, resolved(given[0])):
            return TensorType((), dtype=None)
    if isinstance(part, Tensor) and part.op == operators.GETITEM and part.site is not None:
        node = program.tree.node(part.site)
        index = node.slice if isinstance(node, ast.Subscript) else None
        whole = type_of(part.parents[0])
        is_index = index is not None and _is_position(index, method.parameters[1])
        return whole.with_sizes(whole.sizes[1:]) if is_index and not whole.is_open and whole.sizes else ANY
    return type_of(part) if isinstance(part, Tensor) else ANY


def _is_position(index: ast.expr, parameter: str) -> bool:
    """Whether an index is the parameter, or a number computed from it: `i + self.window`."""
    if isinstance(index, ast.BinOp):
        sides = index.left, index.right
        return any(_is_position(item, parameter) for item in sides) and all(
            isinstance(item, (ast.BinOp, ast.Name, ast.Attribute, ast.Constant)) for item in sides
        )
    return isinstance(index, ast.Name) and index.id == parameter


def _is_number(program: Program, value: Value) -> bool:
    if not isinstance(value, Plain):
        return False
    if value.is_literal:
        return isinstance(value.constant, (int, float))
    return program.observations.numbers.get(value, ("",))[0] in _NUMBERS
