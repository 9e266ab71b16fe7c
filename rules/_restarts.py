"""Iterators that begin anew in each iteration of a loop: `next(iter(loader))`."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint.syntax import python_ast

_NESTED = (*python_ast.LOOPS, *python_ast.SCOPES, ast.If, ast.Try, ast.IfExp)


def own_calls(loop: ast.For | ast.While) -> Iterator[ast.Call]:
    """The calls that each iteration of a loop makes, without those of loops and conditions inside."""
    stack: list[ast.AST] = list(loop.body)
    while stack:
        node = stack.pop()
        if isinstance(node, ast.Call):
            yield node
        stack += [] if isinstance(node, _NESTED) else ast.iter_child_nodes(node)


def drawn(call: ast.Call) -> ast.expr | None:
    """`loader` of `next(iter(loader))`."""
    inner = call.args[0] if call.args and python_ast.dotted(call.func) == "next" else None
    is_iter = isinstance(inner, ast.Call) and python_ast.dotted(inner.func) == "iter" and len(inner.args) == 1
    return inner.args[0] if is_iter and isinstance(inner, ast.Call) else None


def bound_names(loop: ast.AST) -> set[str]:
    """The names that a loop binds."""
    return {item.id for item in ast.walk(loop) if isinstance(item, ast.Name) and isinstance(item.ctx, ast.Store)}
