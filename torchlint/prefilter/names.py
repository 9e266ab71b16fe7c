"""Names in syntax trees of Python's own parser."""

from __future__ import annotations

import ast

from torchlint.pytorch.api import SET_GRAD_MODE, SWITCHES_OFF, SWITCHES_ON

_OFF = frozenset(name.rpartition(".")[2] for name in SWITCHES_OFF - SET_GRAD_MODE)
_ON = frozenset(name.rpartition(".")[2] for name in SWITCHES_ON)


def dotted(node: ast.expr) -> str:
    """`a.b.c`, or nothing where there is more to it than names."""
    if isinstance(node, ast.Name):
        return node.id
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)]) if isinstance(node, ast.Name) else ""


def last(node: ast.expr) -> str:
    """The last name of a dotted one, or what `getattr` is asked for."""
    if isinstance(node, ast.Call) and last(node.func) == "getattr" and len(node.args) > 1:
        return (
            node.args[1].value if isinstance(node.args[1], ast.Constant) and isinstance(node.args[1].value, str) else ""
        )
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def annotated_as(node: ast.expr | None) -> str:
    """The name of an annotated type without its arguments: `list` for `list[int]`."""
    if isinstance(node, ast.Subscript):
        node = node.value
    return last(node) if node is not None else ""


def _last_called(node: ast.expr) -> str:
    return last(node.func if isinstance(node, ast.Call) else node)


def switches_off(node: ast.expr) -> bool:
    """Whether a decorator or context switches gradients off."""
    return _last_called(node) in _OFF


def switches_on(node: ast.expr) -> bool:
    """Whether a context or call may switch gradients on."""
    return _last_called(node) in _ON


def is_false(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and not node.value


_UNUSUAL = (ast.Lambda, ast.IfExp, ast.BoolOp, ast.Await, ast.NamedExpr)
DISPLAYS = (ast.Tuple, ast.List, ast.Dict, ast.ListComp, ast.DictComp)


def is_unusual(node: ast.expr) -> bool:
    """Whether the model sees through an expression, though hardly anybody calls one like it."""
    return isinstance(node, _UNUSUAL) or (isinstance(node, ast.Subscript) and isinstance(node.value, DISPLAYS))


def may_be_self(node: ast.AST) -> bool:
    """Whether an expression that is not just `self` may be that: `(self or None)`."""
    if isinstance(node, ast.Name):
        return node.id == "self"
    return not isinstance(node, (ast.Attribute, ast.Call, ast.Lambda)) and any(
        map(may_be_self, ast.iter_child_nodes(node))
    )
