"""Comparisons whose result is a value, as that of a mask is, and no condition of a statement."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from torchlint.syntax.python_tree import PythonTree

_CONDITIONED = (ast.If, ast.While, ast.Assert, ast.IfExp)


def of_values(tree: PythonTree) -> Iterator[ast.Compare]:
    """The comparisons of a file that decide no branch right where they stand."""
    return (node for node in tree.of_type(ast.Compare) if not _is_condition(tree, node))


def _is_condition(tree: PythonTree, node: ast.AST) -> bool:
    """Whether a comparison is all that a statement asks, or a part of it: `if x > 0 and y:`."""
    for parent in tree.ancestors(node):
        if not isinstance(parent, ast.BoolOp) and not (
            isinstance(parent, ast.UnaryOp) and isinstance(parent.op, ast.Not)
        ):
            return isinstance(parent, _CONDITIONED) and parent.test is node
        node = parent
    return False
