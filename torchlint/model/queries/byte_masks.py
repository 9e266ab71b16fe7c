"""Byte masks, which PyTorch used before it had boolean tensors."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from torchlint.model.definitions import Definitions
from torchlint.model.queries.version_guards import is_guarded
from torchlint.model.values import NewTensor, Tensor, Value, resolved
from torchlint.pytorch import operators
from torchlint.syntax.python_ast import Site, dotted

if TYPE_CHECKING:
    from torchlint.model import Model

_RESHAPED = frozenset("unsqueeze expand expand_as view reshape to cuda cpu squeeze repeat clone contiguous".split())
_BYTES = frozenset({"torch.uint8", "torch.ByteTensor"})
_NUMBERS = frozenset(f"{module}.{name}" for module in ("math", "numpy", "torch") for name in ("inf", "nan"))


class Access(NamedTuple):
    """An indexing at `site` with the byte mask created at `mask`."""

    site: Site
    mask: Site
    reads: bool
    """Whether the program reads elements: by `x[mask]` or by `x[mask] += 1`."""
    stores_number: bool
    """Whether the program stores a number at this single mask, for which PyTorch calls `masked_fill_`."""


def accesses(model: Model) -> Iterator[Access]:
    """The places in this file that surely index a tensor by a byte mask. A single byte is a number, not a mask."""
    tree, definitions = model.tree, model.definitions
    for site, owner, index in model.program.observations.masked:
        node, mask = tree.own_node(site), origin(index, definitions)
        if mask is None or not isinstance(node, ast.Subscript) or _is_array(owner) or is_guarded(tree, node):
            continue
        if all(item.rank != 0 for item in model.shapes.types_of(index)):
            parent = tree.parent(node)
            reads = isinstance(node.ctx, ast.Load) or isinstance(parent, ast.AugAssign)
            stores = isinstance(parent, ast.Assign) and node in parent.targets and _is_number(parent.value, definitions)
            yield Access(site, mask, reads, stores and _is_alone(node))


def _is_array(tensor: Value) -> bool:
    """Whether a value comes from a NumPy array, or may be one."""
    while isinstance(tensor, Tensor) and tensor.op != operators.NUMPY and tensor.parents:
        tensor = resolved(tensor.parents[0])
    return isinstance(tensor, Tensor) and tensor.op == operators.NUMPY


def _is_number(node: ast.expr, definitions: Definitions) -> bool:
    if isinstance(node, ast.UnaryOp):
        return _is_number(node.operand, definitions)
    if isinstance(node, ast.Call):
        return definitions.named(node.func) == "float"
    return isinstance(node, ast.Constant) or definitions.named(node) in _NUMBERS


def _is_alone(node: ast.Subscript) -> bool:
    """Whether the brackets contain one mask and otherwise only slices and literals."""
    indices = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    return sum(not isinstance(item, (ast.Slice, ast.Constant, ast.UnaryOp)) for item in indices) == 1


def origin(mask: Value, definitions: Definitions) -> Site | None:
    """The place in the file that surely creates a mask as bytes."""
    mask = resolved(mask)
    while isinstance(mask, Tensor) and mask.op in _RESHAPED and mask.parents:
        if mask.op == operators.TO and not _only_moves(_call(mask, definitions)):
            return None
        mask = resolved(mask.parents[0])
    call = _call(mask, definitions)
    if call is None or not isinstance(mask, Tensor):
        return None
    may_be_bytes = isinstance(mask, NewTensor) or mask.op == operators.LONG
    is_bytes = mask.op == operators.BYTE or (may_be_bytes and _names_bytes(call, definitions))
    return mask.site if is_bytes else None


def _call(value: Value, definitions: Definitions) -> ast.Call | None:
    """The call in this file that gives a value."""
    node = definitions.tree.own_node(value.site)
    return node if isinstance(node, ast.Call) else None


def _only_moves(call: ast.Call | None) -> bool:
    """Whether `x.to(...)` surely receives a device and no element type."""
    return call is not None and all(_is_device(item) for item in (*call.args, *(item.value for item in call.keywords)))


def _is_device(node: ast.expr) -> bool:
    """Whether an argument of `to` is a device by its value or its name, or a flag."""
    if isinstance(node, ast.Constant):
        return isinstance(node.value, (str, bool))
    name = dotted(node.func if isinstance(node, ast.Call) else node)
    return name.rpartition(".")[2].lower().endswith("device")


def _names_bytes(call: ast.Call, definitions: Definitions) -> bool:
    """Whether a call that creates or converts a tensor names bytes: by its own name, as a `dtype` or as a type."""
    is_method = isinstance(call.func, ast.Attribute) and call.func.attr in ("to", "type")
    types = [*(call.args[:1] if is_method else ()), *(item.value for item in call.keywords if item.arg == "dtype")]
    return any(definitions.named(node) in _BYTES for node in (call.func, *types))
