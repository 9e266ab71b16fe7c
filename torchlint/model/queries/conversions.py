"""Conversions of a tensor that has the element type or the device already, as far as the program shows it."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from torchlint.index import FileIndex
from torchlint.model.queries import variables
from torchlint.model.values import Value, resolved
from torchlint.pytorch import api
from torchlint.syntax.python_ast import called_name, walk, written_alike

if TYPE_CHECKING:
    from torchlint.model.model import Model

_TYPES = {
    "float": "float32", "double": "float64", "half": "float16", "long": "int64", "int": "int32", "short": "int16",
    "char": "int8", "byte": "uint8",
}  # fmt: skip
"""Names of element types that differ from the method or the constant: `x.long()`, `torch.long`."""
_MEMORY = 6
"""The number of operations between a tensor and the place that puts it on its device."""


def changes_nothing(call: ast.Call, receiver: Value, model: Model) -> bool:
    """Whether a method of a tensor surely gives the tensor itself: `torch.argmax(x).long()`, `x.to()`."""
    method, given = called_name(call), [*call.args, *(item.value for item in call.keywords)]
    if method not in api.MOVING | api.OUT_OF_PLACE or len(given) > 1:
        return False
    if method == "to" and not given:
        return True
    dtype = _type(given[0], model) if method in ("to", "type") and given else _TYPES.get(method, method)
    if dtype is not None and {item.dtype for item in model.shapes.types_of(receiver)} in _having(dtype, method):
        return True
    if method not in ("to", "cuda", "cpu"):
        return False
    device = given[0] if given else ast.Constant(method)
    present = _device(receiver, model, _MEMORY)
    return present is not None and written_alike(device, present) and _is_constant(device, call, model)


def _having(dtype: str, method: str) -> list[set[str | None]]:
    """The known element types with which a conversion does nothing."""
    known: list[set[str | None]] = [{dtype}]
    return [*known, {"float"}, {"float", "float32"}] if method == "float" else known


def _type(node: ast.expr, model: Model) -> str | None:
    """The element type that a constant of torch names."""
    name = model.definitions.named(node)
    last = name.rpartition(".")[2]
    return _TYPES.get(last, last) if name.startswith("torch.") else None


def _device(value: Value, model: Model, steps: int) -> ast.expr | None:
    """The expression of the device on which the program puts a tensor."""
    value = resolved(value)
    node = model.tree.own_node(value.site)
    if not steps:
        return None
    if isinstance(node, ast.Call):
        given = next((item.value for item in node.keywords if item.arg == "device"), None)
        method = called_name(node)
        if given is not None or method in ("cuda", "cpu"):
            return given if given is not None else node.args[0] if node.args else ast.Constant(method)
        if method == "to" and node.args and _type(node.args[0], model) is None:
            return node.args[0]
        if method in api.CREATORS:
            is_new = model.definitions.named(node.func).startswith("torch.") and not method.endswith("_like")
            return ast.Constant("cpu") if is_new and method != "load" else None
    for parent in value.parents:
        found = _device(parent, model, steps - 1)
        if found is not None and not isinstance(found, ast.Constant):
            return found
    return None


def _is_constant(device: ast.expr, call: ast.Call, model: Model) -> bool:
    """Whether an expression for a device has one value: nothing binds its names or sets its attributes twice."""
    index = FileIndex.of(model.tree)
    for item in walk(device):
        if isinstance(item, ast.Name):
            is_parameter = variables.is_parameter(item.id, call, model.definitions)
            if len(variables.bindings(item.id, call, model.definitions)) + is_parameter > 1:
                return False
        is_changed = isinstance(item, ast.Attribute) and len(list(index.stores_of(item.attr))) > 1
        if is_changed or isinstance(item, ast.Call):
            return False
    return True
