"""The names and attributes that statements bind."""

from __future__ import annotations

import ast
from collections.abc import Iterator

_BINDING = (ast.AnnAssign, ast.AugAssign, ast.For, ast.AsyncFor, ast.comprehension, ast.NamedExpr)
ASSIGNING = (*_BINDING, ast.Assign, ast.withitem)
"""Nodes that bind names."""


def assigned_in(node: ast.AST) -> set[str]:
    """The names that a statement or expression itself binds, or changes in place by a method."""
    names: set[str] = set()
    if isinstance(node, ast.Expr):
        if isinstance(node.value, ast.Call):
            _add_inplace(node.value, names)
        return names
    for target in _targets(node):
        _add_names(target, names)
    return names


def _add_inplace(call: ast.Call, names: set[str]) -> None:
    if isinstance(call.func, ast.Attribute) and call.func.attr.endswith("_") and isinstance(call.func.value, ast.Name):
        names.add(call.func.value.id)


def _targets(node: ast.AST) -> list[ast.expr]:
    if isinstance(node, ast.Assign):
        return node.targets
    if isinstance(node, ast.withitem):
        return [node.optional_vars] if node.optional_vars is not None else []
    return [node.target] if isinstance(node, _BINDING) else []


def _add_names(target: ast.expr, names: set[str]) -> None:
    if isinstance(target, ast.Name):
        names.add(target.id)
    elif isinstance(target, (ast.Tuple, ast.List)):
        for element in target.elts:
            _add_names(element, names)
    elif isinstance(target, ast.Starred):
        _add_names(target.value, names)
    elif isinstance(target, ast.Subscript):
        whole: ast.expr = target
        while isinstance(whole, ast.Subscript):
            whole = whole.value
        if isinstance(whole, ast.Name):
            names.add(whole.id)


def assigned_attributes(target: ast.expr) -> Iterator[ast.Attribute]:
    """The attributes among the names that an assignment's target binds."""
    if isinstance(target, ast.Attribute):
        yield target
    elif isinstance(target, (ast.Tuple, ast.List)):
        for element in target.elts:
            yield from assigned_attributes(element)
