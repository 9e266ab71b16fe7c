"""Dereferenced variables: code after an `if` that surely reads an attribute or an element of a variable."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from torchlint.syntax.python_ast import FUNCTIONS, walk

_MOST_STATEMENTS = 30
"""Statements after an `if` that are searched."""
_LEAVING = (ast.Return, ast.Raise, ast.Continue, ast.Break)
_SIMPLE = (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Expr, ast.Return, ast.Assert, ast.Delete)
_PERHAPS = (ast.Lambda, ast.IfExp, ast.BoolOp, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
"""Expressions of which some parts may not run."""


def is_dereferenced_later(node: ast.If, after: Iterable[ast.AST]) -> bool | None:
    """The truth of `x is not None`, or of its opposite, if the code after the `if` raises for an `x` that is None."""
    test = node.test
    is_test = isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], (ast.Is, ast.IsNot))
    if not is_test or not isinstance(test, ast.Compare) or not isinstance(test.left, ast.Name):
        return None
    other, name = test.comparators[0], test.left.id
    if not isinstance(other, ast.Constant) or other.value is not None:
        return None
    is_negated = isinstance(test.ops[0], ast.IsNot)
    for_none = node.orelse if is_negated else node.body
    if any(map(_leaves, for_none)) or any(_binds(item, name) for item in for_none):
        return None
    return is_negated if _is_dereferenced(name, after) else None


def _is_dereferenced(name: str, after: Iterable[ast.AST]) -> bool:
    for statement, _ in zip(after, range(_MOST_STATEMENTS), strict=False):
        is_plain = isinstance(statement, _SIMPLE)
        if is_plain and _reads_part(statement, name):
            return True
        if _binds(statement, name) or _leaves(statement):
            return False
    return False


def _reads_part(node: ast.AST, name: str) -> bool:
    """Whether an expression surely evaluates `name.part` or `name[...]`."""
    if isinstance(node, _PERHAPS):
        return False
    if isinstance(node, (ast.Attribute, ast.Subscript)) and isinstance(node.value, ast.Name) and node.value.id == name:
        return True
    return any(_reads_part(child, name) for child in ast.iter_child_nodes(node))


def _binds(node: ast.AST, name: str) -> bool:
    stores = (item for item in walk(node) if isinstance(item, ast.Name) and not isinstance(item.ctx, ast.Load))
    return any(item.id == name for item in stores)


def _leaves(node: ast.AST) -> bool:
    """Whether a statement may leave the block: it holds `return`, `raise`, or a jump of a loop."""
    return not isinstance(node, FUNCTIONS) and any(isinstance(item, _LEAVING) for item in walk(node))
