"""Names in expressions that can be read in a running program: paths that are followed without running its code."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

AccessPath = tuple[str, ...]
"""A name, then attributes (`.losses`) and constant keys (`'train`, `=0`)."""


def expressions_of(statement: ast.stmt) -> list[ast.expr]:
    """The expressions of a statement's header."""
    return [
        expression
        for name, field in ast.iter_fields(statement)
        if name not in ("body", "orelse", "finalbody", "handlers")
        for expression in (field if isinstance(field, list) else [field])
        if isinstance(expression, ast.expr)
    ]


def paths_in(node: ast.expr) -> Iterator[AccessPath]:
    """The longest paths that can be followed without running code of the program."""
    path = path_of(node)
    if path is not None:
        yield path
        return
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        yield from paths_in(node.func.value)
        below: Iterable[ast.AST] = [*node.args, *(keyword.value for keyword in node.keywords)]
    else:
        below = ast.iter_child_nodes(node)
    for child in below:
        if isinstance(child, ast.expr):
            yield from paths_in(child)
        elif isinstance(child, (ast.comprehension, ast.keyword)):
            yield from paths_in(child.iter if isinstance(child, ast.comprehension) else child.value)


def path_of(node: ast.expr) -> AccessPath | None:
    """The path of an expression; None if it is not a path."""
    if isinstance(node, ast.Name):
        return (node.id,)
    if isinstance(node, ast.Attribute):
        owner = path_of(node.value)
        return None if owner is None else (*owner, f".{node.attr}")
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
        owner = path_of(node.value)
        key = node.slice.value
        if owner is not None and isinstance(key, str):
            return (*owner, f"'{key}")
        if owner is not None and type(key) is int:
            return (*owner, f"={key}")
    return None


def longest_path(node: ast.expr) -> AccessPath | None:
    """The path of an expression, or of the container that it is an item of."""
    while (path := path_of(node)) is None and isinstance(node, (ast.Subscript, ast.Attribute)):
        node = node.value
    return path
