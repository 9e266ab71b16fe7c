"""Names in syntax trees of Python's own parser."""

from __future__ import annotations

import ast


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
    return _last_called(node) in ("no_grad", "inference_mode")


def switches_on(node: ast.expr) -> bool:
    """Whether a context or call may switch gradients on."""
    return _last_called(node) in ("enable_grad", "set_grad_enabled")


def is_false(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and not node.value
