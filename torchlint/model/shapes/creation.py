"""Types of new tensors."""

from __future__ import annotations

import ast
import math
from typing import TYPE_CHECKING

from torchlint.model.shapes.arithmetic import dtype_named
from torchlint.model.shapes.operation_arguments import Operation
from torchlint.model.shapes.sizes import Known, Size
from torchlint.model.shapes.tensor_type import ANY, TensorType, contiguous
from torchlint.model.values import List, Plain, Tuple, Value, resolved

if TYPE_CHECKING:
    from torchlint.model.program import Program

_CONVERSIONS = {"float": "float", "int": "int64", "len": "int64", "bool": "bool"}
"""The element type of a tensor of each kind of Python number, by the function that makes the number."""
_MOST_STEPS = 6


def _dtype(call: Operation, default: str | None) -> str | None:
    asked = call.get("dtype")
    return (dtype_named(asked) if asked is not None else default) if call.is_complete else None


def _of_sizes(call: Operation, sizes: tuple[Known, ...] | None, dtype: str | None) -> TensorType:
    if sizes is None or call.get("out") is not None:
        return ANY.with_dtype(_dtype(call, dtype))
    return contiguous(sizes, _dtype(call, dtype))


def _create(call: Operation) -> TensorType:
    sizes = call.sizes_of(call.rest) if call.rest else None
    return _of_sizes(call, sizes, call.transfer.dtype)


def _full(call: Operation) -> TensorType:
    size, fill = call.get("size"), call.get("fill_value")
    sizes = call.sizes_of([size]) if size is not None else None
    return _of_sizes(call, sizes, _kind_of(fill) if fill is not None else None)


def _kind_of(value: Value) -> str | None:
    """The element type of a tensor built from a literal."""
    made = resolved(value)
    constant = made.constant if isinstance(made, Plain) else None
    return {bool: "bool", int: "int64", float: "float"}.get(type(constant))


def _randint(call: Operation) -> TensorType:
    size = call.get("size")
    if size is None:
        size = call.rest[-1] if len(call.rest) > 1 else None
    sizes = call.sizes_of([size]) if size is not None else None
    return _of_sizes(call, sizes, "int64")


def _create_one(call: Operation) -> TensorType:
    return _of_sizes(call, (call.number("n"),), call.transfer.dtype)


def _linspace(call: Operation) -> TensorType:
    return _of_sizes(call, (call.number("steps"),), "float")


def _eye(call: Operation) -> TensorType:
    rows = call.number("n")
    return _of_sizes(call, (rows, call.number("m") if call.is_given("m") else rows), "float")


def _arange(call: Operation) -> TensorType:
    """Literal integers, or one integer; for others the length depends on rounding."""
    bounds = [call.number_of(item) for item in call.rest]
    numbers = [bound.number if bound is not None else None for bound in bounds]
    if not bounds or not call.is_complete or len(bounds) > 3 or any(bound is None for bound in bounds):
        return TensorType((None,), False, None)
    if None in numbers:
        size = bounds[0] if len(bounds) == 1 else None
        return TensorType((size,), False, _dtype(call, None))
    start, stop, step = _range(*[number for number in numbers if number is not None])
    size = Size.of(max(0, math.ceil((stop - start) / step))) if step else None
    return contiguous((size,), _dtype(call, "int64"))


def _range(first: int, stop: int | None = None, step: int = 1) -> tuple[int, int, int]:
    return (0, first, step) if stop is None else (first, stop, step)


def _data(call: Operation) -> TensorType:
    """`torch.tensor` of a number, or of nested lists of numbers."""
    data = call.get("data")
    found = _numbers(resolved(data), call.case.program) if data is not None else None
    if found is None and data is not None and _is_column(call, resolved(data)):
        return TensorType((None,), False, _dtype(call, None))
    if found is None:
        return ANY.with_dtype(_dtype(call, None))
    return contiguous(map(Size.of, found[0]), _dtype(call, found[1]))


def _is_column(call: Operation, value: Value) -> bool:
    """Whether data is one column of a pandas table: `table["price"].values`."""
    tree, site = call.case.program.tree, value.site
    code = site.inner.tree.source.code if site is not None and site.inner is not None else tree.source.code
    if site is None or b"pandas" not in code or b"xarray" in code:
        return False
    node, is_array = tree.node(site), False
    for _ in range(_MOST_STEPS):
        if isinstance(node, ast.Subscript):
            key = node.slice.value if isinstance(node.slice, ast.Constant) else None
            return is_array and isinstance(key, str)
        node = node.func if isinstance(node, ast.Call) else node
        if not isinstance(node, ast.Attribute) or node.attr not in ("values", "to_numpy", "astype"):
            return False
        is_array = is_array or node.attr != "astype"
        node = node.value
    return False


def _numbers(value: Value, program: Program) -> tuple[tuple[int, ...], str | None] | None:
    """The sizes and element type of a number, or of nested lists of numbers; `float(x)` and `len(x)` are numbers."""
    if isinstance(value, Plain):
        kind = _kind_of(value) or _CONVERSIONS.get(program.observations.numbers.get(value, ("",))[0])
        return ((), kind) if kind is not None else None
    if not isinstance(value, (List, Tuple)) or value.grown or value.known_parts:
        return None
    if value.site is None or not value.site.is_of(ast.List, ast.Tuple) or not value.parents:
        return None
    parts = {_numbers(resolved(item), program) for item in value.parents}
    first = next(iter(parts))
    if len({part and part[0] for part in parts}) != 1 or first is None:
        return None
    kinds = {part[1] for part in parts if part is not None}
    return (len(value.parents), *first[0]), "float" if "float" in kinds else kinds.pop() if len(kinds) == 1 else None


def _create_like(call: Operation) -> TensorType:
    type_ = call.operand()
    return type_.with_sizes(type_.sizes).with_dtype(_dtype(call, type_.dtype))


HANDLERS = {
    "create": _create,
    "full": _full,
    "randint": _randint,
    "create_one": _create_one,
    "linspace": _linspace,
    "eye": _eye,
    "arange": _arange,
    "data": _data,
    "create_like": _create_like,
}
